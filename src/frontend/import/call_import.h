// One call of an op during import, as seen by the functions that map the ops of a format to heddle's ops.
//
//   void ImportFlatten(CallImport& n) {
//     const int64_t axis = n.Axis(n.Int("axis", 1), n.rank(0) + 1);
//     n.Return(n.Emit("Reshape", {{"shape", ...}}, {n.In(0)}));
//   }
//
// Attributes must be read, or ignored by name: an attribute that nothing reads is an error, so that nothing in a file
// is silently skipped. Errors thrown here (Fail, or an InputError of a rule) need not name file or node: the importer
// (importer.h) prepends both.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "frontend/import/builder.h"
#include "frontend/import/model_file.h"

namespace heddle {

class CallImport {
 public:
  // A null operand was left out. `used` says which results are read.
  CallImport(Builder& builder, const ModelFile& file, const OpCall& call,
             const ImportOptions& options, std::vector<const Imported*> operands,
             std::vector<bool> used);

  // The version of the format's op set.
  int64_t opset() const { return file_.opset; }
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
  // The numbers of a constant operand that determines the result's shape; `role` names it in messages ("shape",
  // "axes").
  std::vector<int64_t> Ints(size_t i, std::string_view role) const;
  int64_t ScalarInt(size_t i, std::string_view role) const;
  double Scalar(size_t i, std::string_view role) const;
  std::vector<double> Numbers(size_t i, std::string_view role) const;

  // --- attributes ---
  bool HasAttr(std::string_view name) const { return call_.attributes.contains(name); }
  int64_t Int(std::string_view name, std::optional<int64_t> fallback = {});
  double Float(std::string_view name, std::optional<double> fallback = {});
  std::string String(std::string_view name, std::optional<std::string> fallback = {});
  std::vector<int64_t> IntList(std::string_view name,
                               std::optional<std::vector<int64_t>> fallback = {});
  TensorData Tensor(std::string_view name);
  const CallAttribute* Raw(std::string_view name);
  void Ignore(std::initializer_list<std::string_view> names) {
    read_.insert(names.begin(), names.end());
  }

  // Converts an axis that may be negative to a non-negative one.
  int64_t Axis(int64_t axis, int64_t rank) const;
  // Converts a list of distinct axes; the result is ascending.
  std::vector<int64_t> Axes(const std::vector<int64_t>& axes, int64_t rank) const;

  // --- results ---
  size_t outputs() const { return call_.results.size(); }
  // Whether anything reads the output.
  bool Used(size_t i) const { return i < used_.size() && used_[i]; }
  // Fails where one of the outputs after the first `count` is used; `what` describes these.
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
  // A constant of rank 0.
  Imported Number(DType dtype, double value) { return Builder::Splat(dtype, {}, value); }
  static Imported IntsConstant(const std::vector<int64_t>& values);
  void Return(Imported result) { Return(0, std::move(result)); }
  void Return(size_t i, Imported result);

  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) const {
    ThrowInput(format, std::forward<Args>(args)...);
  }

  // The results, one per output. Throws where an attribute was not read, or an output that is used was not returned.
  std::vector<std::optional<Imported>> Finish();

 private:
  const std::string& NameOf(CallName name) const { return file_.names[name]; }
  const ConstTensor& KnownOperand(size_t i, std::string_view role) const;

  Builder& builder_;
  const ModelFile& file_;
  const OpCall& call_;
  const ImportOptions& options_;
  std::vector<const Imported*> operands_;
  std::vector<bool> used_;
  std::set<std::string, std::less<>> read_;
  std::vector<std::optional<Imported>> results_;
};

// How an op of a format is mapped to heddle's ops.
struct OpImport {
  std::string_view name;
  int min_operands;
  int max_operands;  // -1: any number
  void (*import)(CallImport&);
};

}  // namespace heddle
