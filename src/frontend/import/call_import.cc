#include "frontend/import/call_import.h"

#include <algorithm>

#include "graph/graph.h"

namespace heddle {

CallImport::CallImport(Builder& builder, const ModelFile& file, const OpCall& call,
                       const ImportOptions& options, std::vector<const Imported*> operands,
                       std::vector<bool> used)
    : builder_(builder),
      file_(file),
      call_(call),
      options_(options),
      operands_(std::move(operands)),
      used_(std::move(used)),
      results_(call.results.size()) {}

const Imported& CallImport::Any(size_t i) const {
  if (!Has(i)) Fail("operand {} is missing", i);
  return *operands_[i];
}

const Imported& CallImport::In(size_t i) const {
  const Imported& operand = Any(i);
  if (operand.sequence)
    Fail("operand {} ('{}') is a sequence, must be a tensor", i, NameOf(call_.operands[i]));
  return operand;
}

std::vector<Imported> CallImport::All() const {
  std::vector<Imported> all;
  for (size_t i = 0; i < operands_.size(); ++i) all.push_back(In(i));
  return all;
}

const ConstTensor& CallImport::KnownOperand(size_t i, std::string_view role) const {
  const Imported& operand = In(i);
  if (!operand.constant) {
    Fail(
        "operand {} ({} '{}') is computed or has no data, must be a constant; export with fixed "
        "shapes",
        i, role, NameOf(call_.operands[i]));
  }
  return *operand.constant;
}

std::vector<int64_t> CallImport::Ints(size_t i, std::string_view role) const {
  return ToInts(KnownOperand(i, role),
                fmt::format("operand {} ({} '{}')", i, role, NameOf(call_.operands[i])));
}

int64_t CallImport::ScalarInt(size_t i, std::string_view role) const {
  const auto values = Ints(i, role);
  if (values.size() != 1)
    Fail("operand {} ({}) has {} elements, must have one", i, role, values.size());
  return values.front();
}

std::vector<double> CallImport::Numbers(size_t i, std::string_view role) const {
  const HostTensor dense = Materialize(KnownOperand(i, role), 64 * 1024);
  std::vector<double> values;
  for (int64_t e = 0; e < dense.size(); ++e) values.push_back(AsDouble(dense, e));
  return values;
}

double CallImport::Scalar(size_t i, std::string_view role) const {
  const auto values = Numbers(i, role);
  if (values.size() != 1)
    Fail("operand {} ({}) has {} elements, must have one", i, role, values.size());
  return values.front();
}

const CallAttribute* CallImport::Raw(std::string_view name) {
  read_.emplace(name);
  const auto it = call_.attributes.find(name);
  return it == call_.attributes.end() ? nullptr : &it->second;
}

int64_t CallImport::Int(std::string_view name, std::optional<int64_t> fallback) {
  const CallAttribute* attribute = Raw(name);
  if (!attribute && fallback) return *fallback;
  if (!attribute) Fail("attribute '{}' is missing", name);
  if (const auto* value = std::get_if<int64_t>(attribute)) return *value;
  Fail("attribute '{}' must be an integer", name);
}

double CallImport::Float(std::string_view name, std::optional<double> fallback) {
  const CallAttribute* attribute = Raw(name);
  if (!attribute && fallback) return *fallback;
  if (!attribute) Fail("attribute '{}' is missing", name);
  if (const auto* value = std::get_if<double>(attribute)) return *value;
  Fail("attribute '{}' must be a float", name);
}

std::string CallImport::String(std::string_view name, std::optional<std::string> fallback) {
  const CallAttribute* attribute = Raw(name);
  if (!attribute && fallback) return *fallback;
  if (!attribute) Fail("attribute '{}' is missing", name);
  if (const auto* value = std::get_if<std::string>(attribute)) return *value;
  Fail("attribute '{}' must be a string", name);
}

std::vector<int64_t> CallImport::IntList(std::string_view name,
                                         std::optional<std::vector<int64_t>> fallback) {
  const CallAttribute* attribute = Raw(name);
  if (!attribute && fallback) return *fallback;
  if (!attribute) Fail("attribute '{}' is missing", name);
  if (const auto* value = std::get_if<std::vector<int64_t>>(attribute)) return *value;
  Fail("attribute '{}' must be a list of integers", name);
}

TensorData CallImport::Tensor(std::string_view name) {
  const CallAttribute* attribute = Raw(name);
  if (!attribute) Fail("attribute '{}' is missing", name);
  if (const auto* value = std::get_if<TensorData>(attribute)) return *value;
  Fail("attribute '{}' must be a tensor", name);
}

int64_t CallImport::Axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) Fail("axis {} is out of range for {} dimensions", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> CallImport::Axes(const std::vector<int64_t>& axes, int64_t rank) const {
  std::vector<int64_t> out;
  for (const int64_t axis : axes) out.push_back(Axis(axis, rank));
  std::sort(out.begin(), out.end());
  const auto twice = std::adjacent_find(out.begin(), out.end());
  if (twice != out.end()) Fail("axis {} is given twice", *twice);
  return out;
}

void CallImport::OnlyOutputs(size_t count, std::string_view what) const {
  for (size_t i = count; i < call_.results.size(); ++i) {
    if (Used(i))
      Fail("output {} ('{}') is used; {} not supported", i, NameOf(call_.results[i]), what);
  }
}

std::vector<Imported> CallImport::EmitAll(std::string_view op, Attributes attributes,
                                          std::vector<Imported> operands) {
  std::string_view name = call_.name;
  if (!call_.results.empty() && call_.results.front().valid()) {
    name = NameOf(call_.results.front());
  }
  return builder_.Emit(op, std::move(attributes), std::move(operands), name);
}

Imported CallImport::Emit(std::string_view op, Attributes attributes,
                          std::vector<Imported> operands) {
  return EmitAll(op, std::move(attributes), std::move(operands)).front();
}

Imported CallImport::IntsConstant(const std::vector<int64_t>& values) {
  return Builder::Constant(MakeTensor(DType::kI64, {static_cast<int64_t>(values.size())}, values));
}

void CallImport::Return(size_t i, Imported result) {
  if (i < results_.size()) results_[i] = std::move(result);
}

std::vector<std::optional<Imported>> CallImport::Finish() {
  for (const auto& [name, value] : call_.attributes) {
    if (!read_.contains(name)) Fail("attribute '{}' is not supported; export without it", name);
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    if (Used(i) && !results_[i]) {
      Fail("output {} ('{}') is used, but heddle's op has no such output", i,
           NameOf(call_.results[i]));
    }
    if (results_[i] && call_.results[i].valid())
      builder_.NameResult(*results_[i], NameOf(call_.results[i]));
  }
  return std::move(results_);
}

}  // namespace heddle
