// Builds the graph of an import: emits ops, and holds constants back until a real node reads them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
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
  bool is_zero() const { return constant && SplatValue(*constant) == 0.0; }
};

// Names given to it as a view are those of the file, which outlives it.
class Builder {
 public:
  Builder(std::string graph_name, const ImportOptions& options);

  const Graph& graph() const { return graph_; }

  Imported AddInput(const std::string& name, TensorType type);
  Imported AddParameter(const std::string& name, TensorType type,
                        std::shared_ptr<const HostTensor> data);
  // A constant of the file: held back where its data is known.
  Imported AddConstant(std::string_view name, TensorType type,
                       std::shared_ptr<const HostTensor> data);
  static Imported Constant(ConstTensor tensor);
  static Imported Constant(HostTensor tensor);
  // Every element the same number; stored once however large.
  static Imported Splat(DType dtype, const Shape& shape, double value);

  // Applies an op. Where it changes nothing this is the operand; where all operands are known the
  // results are constants; otherwise a node. New values are named after `name`, in the end.
  std::vector<Imported> Emit(std::string_view op, Attributes attributes,
                             std::vector<Imported> operands, std::string_view name);

  // Gives a value that Emit made its name in the file, unless it has one already.
  void NameResult(const Imported& result, std::string_view name);

  // May a constant of this many bytes be made? Counts it when so.
  bool TakeConstantBytes(int64_t bytes);

  // Names what has no name yet, by none that is reserved, and hands the graph over.
  Graph Finish(const std::function<bool(const std::string&)>& reserved);

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
  ValueId AddUnnamedResult(NodeId node, TensorType type, std::string_view name);

  Graph graph_;
  int64_t constant_bytes_left_;
  // Values made without a name, in order, and what to name those after that get none.
  std::vector<std::pair<ValueId, std::string_view>> unnamed_;
  std::unordered_map<const HostTensor*, std::string_view> file_names_;  // of a storage
  std::unordered_map<const HostTensor*, ValueId> constants_;            // of a storage
  std::map<std::pair<ValueId, Shape>, ValueId> expanded_;
  std::map<uint64_t, std::vector<ValueId>> equal_;  // by the hash of the data
};

// The shape that numpy broadcasting gives, or nothing where the shapes do not fit.
std::optional<Shape> BroadcastShapes(const std::vector<Shape>& shapes);

}  // namespace heddle
