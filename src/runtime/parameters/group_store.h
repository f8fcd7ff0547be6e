// The parameters of one group (program.h: ParameterGroup) on one device, with their gradients and optimizer state.
//
// Parts, each with a file of its own:
//   GroupLayout          how the group is split: slots in flat tensors, and the chunk of ZeRO
//   PackedForm           in what form numbers are held: dense, or only what is kept of pruned parameters
//   GradientAccumulator  gradients, from backward to the reduction
//   OptimizerState       master weights and moments, on the device or on the host
//   SpilledWeights       weights that live on the host
//
// This class holds the weights that nodes read and keeps the parts consistent. Weights are one flat tensor; what nodes
// read are views of it, leaves of autograd. ZeRO 1 and 2 keep the whole of it, ZeRO 3 keeps a chunk and fills the
// whole for a while; then the storage under the views is empty between uses.
//
// Threads: used by one thread at a time, which may change. Nothing makes the host wait for the device unless the
// comment says so.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/checkpoint/state.h"
#include "runtime/host_tensors.h"
#include "runtime/optimizer.h"
#include "runtime/parameters/gradient_accumulator.h"
#include "runtime/parameters/group_layout.h"
#include "runtime/parameters/optimizer_state.h"
#include "runtime/parameters/packed_form.h"
#include "runtime/parameters/spilled_weights.h"
#include "runtime/parameters/state_bytes.h"
#include "runtime/weights.h"

namespace heddle {

// A tile of a parameter (or of its gradient): where it lies, and its elements.
struct ParameterPart {
  std::string name;
  Shape shape;  // of the whole parameter
  Tile tile;
  at::Tensor values;
};

// What stores of groups are made from. All of it outlives them, except `weights` and `mask`, which are read by the
// constructor only. `mask` may be null where nothing is pruned.
struct StoreInputs {
  const Program& program;
  int64_t device = 0;  // of the program
  at::Device on;
  const OptimizerOptions& optimizer;
  const WeightSource& weights;
  const HostSide& host;
  const Mask* mask = nullptr;
};

class GroupStore {
 public:
  GroupStore(const StoreInputs& inputs, StageId stage, ParameterGroupId group);
  GroupStore(const GroupStore&) = delete;
  GroupStore& operator=(const GroupStore&) = delete;

  const ParameterGroup& group() const { return group_; }
  const GroupLayout& layout() const { return layout_; }
  GradientAccumulator& gradients() { return gradients_; }
  const GradientAccumulator& gradients() const { return gradients_; }
  // Of groups that are offloaded, Fetch, Evict and Release are the executor's to call.
  OptimizerState& optimizer() { return *optimizer_; }
  int64_t updates() const { return optimizer_->updates(); }  // waits for the device
  SpilledWeights& spilled() { return *spilled_; }            // of groups that are spilled

  // The leaf that nodes read as slot `slot`.
  const at::Tensor& leaf(size_t slot) const { return leaves_[slot]; }

  // The sum of squares of a reduced gradient, of those elements that this device counts: an f64 tensor of one number.
  at::Tensor SquaredNorm(const at::Tensor& reduced) const {
    return heddle::SquaredNorm(layout_, reduced, flat_.device());
  }
  // One step of the optimizer, with a reduced gradient or with what was added to gradients(), and the weights that
  // follow from it where this device has them.
  void Update(const at::Tensor& reduced, const UpdateFactors& factors);
  void UpdateFromAdded(const UpdateFactors& factors);

  // ZeRO, and groups with a server. What this device gives to a gather; a whole flat tensor for the gather to fill (a
  // server's is full); what is done once it is full; the end of its use.
  at::Tensor Chunk() const;
  at::Tensor WholeToFill();
  void Filled(const at::Tensor& whole);
  void ReleaseWhole();

  // Where weights that are not spilled, and what there is of gradients, are to be: on the device, or on the host.
  // Waits for copies to the host.
  void Place(bool weights_here, bool gradients_here);

  // fp32 weights of this device's chunk, where they are between updates: of a group that is spilled, or whose weights
  // were sent to the host, there.
  at::Tensor MasterFlat() const;
  // The same; of a device without a chunk the weights that its server sent, or nothing where they are narrower.
  at::Tensor HeldFlat() const;
  // The tiles of all parameters, from the whole flat tensor of what is kept. Copies.
  std::vector<ParameterPart> Parts(const at::Tensor& whole_flat) const;

  // On the device, between steps; gradients are 0 then.
  StateBytes Memory() const;

  // What this device answers for of weights and moments: views, good until the next update.
  std::vector<StatePart> State() const;
  // Goes on from moments saved earlier; weights are what the constructor was given. Sources may be null: none.
  void Restore(int64_t updates, const WeightSource& first, const WeightSource& second);

 private:
  at::Tensor ReadWeights(const StoreInputs& inputs) const;
  void MakeWeights(const StoreInputs& inputs);
  void WeightsFromMaster();
  at::Tensor ChunkOf(const WeightSource& source) const;

  const ParameterGroup& group_;
  GroupLayout layout_;
  PackedForm form_;
  GradientAccumulator gradients_;
  at::ScalarType compute_;
  const HostSide& host_;
  at::Tensor flat_;   // weights as nodes read them; empty storage between uses with ZeRO 3
  at::Tensor shard_;  // with ZeRO 3, the chunk of them that stays
  std::vector<at::Tensor> leaves_;
  std::unique_ptr<OptimizerState> optimizer_;
  std::unique_ptr<SpilledWeights> spilled_;
  std::optional<at::Tensor> on_host_;  // weights that Place sent to the host
};

}  // namespace heddle
