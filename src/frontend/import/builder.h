// Builds the graph of an import: adds ops, and adds constants only when a node reads them.
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

// What a name of the file refers to during import: a value of the graph, a constant that is not in the graph yet, or a
// sequence of these.
struct Imported {
  TensorType type;
  ValueId id;                           // valid if it is in the graph
  std::optional<ConstTensor> constant;  // set if it is a known constant
  std::shared_ptr<const std::vector<Imported>> sequence;

  const Shape& shape() const { return type.shape; }
  int64_t rank() const { return static_cast<int64_t>(type.shape.size()); }
  bool is_zero() const { return constant && SplatValue(*constant) == 0.0; }
};

// Names that are passed as views belong to the file, which must outlive the builder.
class Builder {
 public:
  Builder(std::string graph_name, const ImportOptions& options);

  const Graph& graph() const { return graph_; }

  Imported AddInput(const std::string& name, TensorType type);
  Imported AddParameter(const std::string& name, TensorType type,
                        std::shared_ptr<const HostTensor> data);
  // A constant of the file. It is added to the graph later where its data is known.
  Imported AddConstant(std::string_view name, TensorType type,
                       std::shared_ptr<const HostTensor> data);
  static Imported Constant(ConstTensor tensor);
  static Imported Constant(HostTensor tensor);
  // A constant whose elements are all equal; it takes the memory of one element.
  static Imported Splat(DType dtype, const Shape& shape, double value);

  // Applies an op. Returns the operand where the op changes nothing, constants where all operands are known, and
  // otherwise the results of a new node. The final names of new values are derived from `name`.
  std::vector<Imported> Emit(std::string_view op, Attributes attributes,
                             std::vector<Imported> operands, std::string_view name);

  // Gives a value that Emit made its name in the file, unless it already has a name.
  void NameResult(const Imported& result, std::string_view name);

  // Whether a constant of this many bytes may be made; if so, its bytes are counted.
  bool TakeConstantBytes(int64_t bytes);

  // Names all values without a name, avoids reserved names, and returns the graph.
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
  // Values without a name, in order, with the name from which theirs is derived.
  std::vector<std::pair<ValueId, std::string_view>> unnamed_;
  std::unordered_map<const HostTensor*, std::string_view> file_names_;  // by storage
  std::unordered_map<const HostTensor*, ValueId> constants_;            // by storage
  std::map<std::pair<ValueId, Shape>, ValueId> expanded_;
  std::map<uint64_t, std::vector<ValueId>> equal_;  // by the hash of the data
};

// The result of numpy broadcasting; empty where the shapes do not match.
std::optional<Shape> BroadcastShapes(const std::vector<Shape>& shapes);

}  // namespace heddle
