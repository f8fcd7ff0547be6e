// Builds the graph of an import: emits ops, and holds constants back until a real node reads them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontend/const_eval.h"
#include "frontend/import_options.h"
#include "graph/graph.h"

namespace heddle {

// What a name of the file stands for while it is imported: a value of the graph, a constant that is
// not in the graph (yet), or a sequence of such.
struct Imported {
  TensorType type;
  ValueId id;                           // valid: in the graph
  std::optional<ConstTensor> constant;  // set: a known constant
  std::shared_ptr<const std::vector<Imported>> sequence;

  const Shape& shape() const { return type.shape; }
  int64_t rank() const { return static_cast<int64_t>(type.shape.size()); }
};

class Builder {
 public:
  // Names in `reserved` are those of the file: no other value takes one.
  Builder(std::string graph_name, const ImportOptions& options,
          std::unordered_set<std::string> reserved);

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }

  Imported AddInput(const std::string& name, TensorType type);
  Imported AddParameter(const std::string& name, TensorType type,
                        std::shared_ptr<const HostTensor> data);
  // A constant of the file: held back where its data is known.
  Imported AddConstant(const std::string& name, TensorType type,
                       std::shared_ptr<const HostTensor> data);
  static Imported Constant(ConstTensor tensor);
  static Imported Constant(HostTensor tensor);
  // Every element the same number; stored once however large.
  static Imported Splat(DType dtype, const Shape& shape, double value);

  // Applies an op. Where it changes nothing this is the operand; where all operands are known the
  // results are constants; otherwise a node. New values are named after `name`.
  std::vector<Imported> Emit(std::string_view op, Attributes attributes,
                             std::vector<Imported> operands, std::string_view name);

  // Gives a value that Emit made its name in the file, unless it has one already.
  void NameResult(const Imported& result, const std::string& name);

  // May a constant of this many bytes be made? Counts it when so.
  bool TakeConstantBytes(int64_t bytes);

 private:
  std::optional<Imported> Simplify(std::string_view op, const Attributes& attributes,
                                   const std::vector<Imported>& operands,
                                   const std::vector<TensorType>& results) const;
  std::optional<std::vector<Imported>> Evaluate(std::string_view op, const Attributes& attributes,
                                                const std::vector<Imported>& operands,
                                                const std::vector<TensorType>& results);
  std::vector<ValueId> Materialise(std::string_view op, std::vector<Imported>& operands,
                                   const Shape& result, std::string_view name);
  ValueId ValueOf(const ConstTensor& tensor, bool shrunken, std::string_view name);
  std::string Fresh(std::string_view name);

  Graph graph_;
  int64_t constant_bytes_left_;
  std::unordered_set<std::string> names_;  // taken
  std::set<ValueId> provisional_;          // values whose name may still change
  std::map<std::string, int64_t, std::less<>> suffix_;
  std::map<const HostTensor*, std::string, std::less<>> file_names_;  // storage -> name in the file
  std::map<const HostTensor*, ValueId, std::less<>> constants_;       // storage -> value
  std::map<std::pair<ValueId, Shape>, ValueId> expanded_;
  std::map<uint64_t, std::vector<ValueId>> equal_;  // by the hash of the data
};

// The shape that numpy broadcasting gives, or nothing where the shapes do not fit.
std::optional<Shape> BroadcastShapes(const std::vector<Shape>& shapes);

}  // namespace heddle
