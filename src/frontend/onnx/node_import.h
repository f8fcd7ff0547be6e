// One ONNX node on its way into the graph, as the entries of import_ops_*.cc see it.
//
//   {"Flatten", 1, 1, [](NodeImport& n) {
//     const int64_t axis = n.Axis(n.Int("axis", 1), n.rank(0) + 1);
//     n.Return(n.Emit("Reshape", {{"shape", ...}}, {n.In(0)}));
//   }},
//
// Adding an ONNX op: one such entry. Attributes must be asked for or ignored by name: one that no
// entry reads is an error, so that nothing in a file is passed over in silence. Errors thrown here
// (Fail, or an InputError of a rule) need not name file or node: the importer puts both in front.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "frontend/onnx/builder.h"
#include "frontend/onnx/decode.h"

namespace heddle {

class NodeImport {
 public:
  // Null is an operand left out.
  NodeImport(Builder& builder, const OnnxModel& model, const OnnxNode& node,
             const ImportOptions& options, std::vector<const Imported*> operands,
             std::vector<bool> used);

  int64_t opset() const { return model_.opset; }
  const ImportOptions& options() const { return options_; }
  Builder& builder() { return builder_; }

  // --- operands: In() throws where the operand is absent or a sequence, Any() where absent ---
  size_t size() const { return operands_.size(); }
  bool Has(size_t i) const { return i < operands_.size() && operands_[i]; }
  const Imported& In(size_t i) const;
  const Imported& Any(size_t i) const;
  std::vector<Imported> All() const;
  const Shape& shape(size_t i) const { return In(i).shape(); }
  int64_t rank(size_t i) const { return In(i).rank(); }
  DType dtype(size_t i) const { return In(i).type.dtype; }
  // A constant operand that shapes the result; `role` names it in messages ("shape", "axes").
  std::vector<int64_t> Ints(size_t i, std::string_view role) const;
  int64_t ScalarInt(size_t i, std::string_view role) const;
  double Scalar(size_t i, std::string_view role) const;
  std::vector<double> Numbers(size_t i, std::string_view role) const;

  // --- attributes ---
  bool HasAttr(std::string_view name) const { return node_.attributes.contains(name); }
  int64_t Int(std::string_view name, std::optional<int64_t> fallback = {});
  double Float(std::string_view name, std::optional<double> fallback = {});
  std::string String(std::string_view name, std::optional<std::string> fallback = {});
  std::vector<int64_t> IntList(std::string_view name,
                               std::optional<std::vector<int64_t>> fallback = {});
  const OnnxAttribute* Raw(std::string_view name);
  void Ignore(std::initializer_list<std::string_view> names) {
    read_.insert(names.begin(), names.end());
  }

  // A possibly negative axis of a tensor of `rank` dimensions, as a non-negative one.
  int64_t Axis(int64_t axis, int64_t rank) const;
  // A list of distinct axes, ascending.
  std::vector<int64_t> Axes(const std::vector<int64_t>& axes, int64_t rank) const;

  // --- results ---
  size_t outputs() const { return node_.outputs.size(); }
  // Is the output read by anything?
  bool Used(size_t i) const { return i < used_.size() && used_[i]; }
  // Fails where one of the outputs after the first `count` is used; `what` says which they are.
  void OnlyOutputs(size_t count, std::string_view what) const;
  Imported Emit(std::string_view op, Attributes attributes, std::vector<Imported> operands);
  std::vector<Imported> EmitAll(std::string_view op, Attributes attributes,
                                std::vector<Imported> operands);
  Imported Reshape(const Imported& x, Shape shape) {
    return Emit("Reshape", {{"shape", std::move(shape)}}, {x});
  }
  Imported Cast(const Imported& x, DType to) {
    return Emit("Cast", {{"to", std::string(Name(to))}}, {x});
  }
  // A rank-0 constant.
  Imported Number(DType dtype, double value) { return Builder::Splat(dtype, {}, value); }
  static Imported IntsConstant(const std::vector<int64_t>& values);
  void Return(Imported result) { Return(0, std::move(result)); }
  void Return(size_t i, Imported result);

  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) const {
    ThrowInput(format, std::forward<Args>(args)...);
  }

  // What the entry returned, one per output; throws where an attribute was not read or an output
  // that is used was not returned.
  std::vector<std::optional<Imported>> Finish();

 private:
  const std::string& NameOf(OnnxName name) const { return model_.names[name]; }
  const ConstTensor& KnownOperand(size_t i, std::string_view role) const;

  Builder& builder_;
  const OnnxModel& model_;
  const OnnxNode& node_;
  const ImportOptions& options_;
  std::vector<const Imported*> operands_;
  std::vector<bool> used_;
  std::set<std::string, std::less<>> read_;
  std::vector<std::optional<Imported>> results_;
};

struct OnnxOp {
  std::string_view name;
  int min_inputs;
  int max_inputs;  // -1: any number
  void (*import)(NodeImport&);
};

// The families, one file each.
std::span<const OnnxOp> OnnxElementwiseOps();
std::span<const OnnxOp> OnnxConstantOps();
std::span<const OnnxOp> OnnxMovementOps();
std::span<const OnnxOp> OnnxIndexingOps();
std::span<const OnnxOp> OnnxContractionOps();
std::span<const OnnxOp> OnnxPoolingOps();
std::span<const OnnxOp> OnnxNormalisationOps();
std::span<const OnnxOp> OnnxReductionOps();
std::span<const OnnxOp> OnnxSequenceOps();

// By name, for the domain ""; null where there is none.
const OnnxOp* FindOnnxOp(std::string_view name);
// All names, sorted, for documentation and tests.
std::vector<std::string_view> AllOnnxOps();

}  // namespace heddle
