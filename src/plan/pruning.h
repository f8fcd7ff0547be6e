// Pruned parameters: most of their weights are zero and stay so. Products are computed densely, but gradients, master
// weights and moments exist only where weights are (SAMO, Singh and Bhatele 2023).
//
//   Pruning pruning = PruneAll(model, 0.9);       a tenth of every matrix is kept, wherever that is
//   Mask mask = Mask::Open("mask.safetensors", model);
//   Pruning pruning = mask.pruning();             what the file says is kept of each
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "graph/safetensors.h"
#include "plan/exchange.h"
#include "plan/model.h"

namespace heddle {

struct Pruning {
  double sparsity = 0;                  // of all parameters that are pruned, together
  std::map<std::string, int64_t> kept;  // weights, by parameter; those that are not there are dense

  bool any() const { return !kept.empty(); }
  bool operator==(const Pruning&) const = default;
};

// Matrices, convolutions and embeddings that are trained: parameters of two dimensions or more.
bool IsPrunable(const Model& model, ValueId parameter);

// The least share that is kept of any parameter; 1 where nothing is pruned.
double LeastKept(const Pruning& pruning, const Graph& graph);

// What is left of so many weights, at least one.
int64_t KeptOf(int64_t elements, double sparsity);

// All that can be, alike. Throws InputError unless 0 <= sparsity < 1; 0 prunes nothing.
Pruning PruneAll(const Model& model, double sparsity);

// A file of masks: a BOOL tensor for every pruned parameter, of its name and shape, true where the weight is kept.
class Mask {
 public:
  // Throws InputError where it is of another model, where nothing of a parameter is kept, or where it is no mask.
  static Mask Open(const std::string& path, const Model& model);

  const std::string& path() const { return file_.path(); }
  uint64_t hash() const { return hash_; }  // of what it says
  const Pruning& pruning() const { return pruning_; }

  // One byte per weight, 0 or 1; empty: the parameter is dense.
  std::span<const std::byte> Of(const std::string& parameter) const;
  // How many of a tile of it are kept.
  int64_t CountIn(const std::string& parameter, const Tile& tile) const;

 private:
  explicit Mask(SafetensorsFile file) : file_(std::move(file)) {}

  SafetensorsFile file_;
  Pruning pruning_;
  uint64_t hash_ = 0;
};

}  // namespace heddle
