#include "frontend/onnx/node_import.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "base/check.h"
#include "graph/graph.h"

namespace heddle {
namespace {

const std::unordered_map<std::string_view, const OnnxOp*>& OpsByName() {
  static const auto* index = [] {
    auto* map = new std::unordered_map<std::string_view, const OnnxOp*>;
    for (auto family :
         {OnnxElementwiseOps, OnnxConstantOps, OnnxMovementOps, OnnxIndexingOps, OnnxContractionOps,
          OnnxPoolingOps, OnnxNormalisationOps, OnnxReductionOps, OnnxSequenceOps}) {
      for (const OnnxOp& op : family()) {
        HEDDLE_CHECK(map->emplace(op.name, &op).second, "{} is listed twice", op.name);
      }
    }
    return map;
  }();
  return *index;
}

}  // namespace

const OnnxOp* FindOnnxOp(std::string_view name) {
  const auto it = OpsByName().find(name);
  return it == OpsByName().end() ? nullptr : it->second;
}

std::vector<std::string_view> AllOnnxOps() {
  std::vector<std::string_view> names;
  for (const auto& [name, op] : OpsByName()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

NodeImport::NodeImport(Builder& builder, const OnnxModel& model, const OnnxNode& node,
                       const ImportOptions& options, std::vector<const Imported*> operands,
                       std::vector<bool> used)
    : builder_(builder),
      model_(model),
      node_(node),
      options_(options),
      operands_(std::move(operands)),
      used_(std::move(used)),
      results_(node.outputs.size()) {}

const Imported& NodeImport::Any(size_t i) const {
  if (!Has(i)) Fail("operand {} is missing", i);
  return *operands_[i];
}

const Imported& NodeImport::In(size_t i) const {
  const Imported& operand = Any(i);
  if (operand.sequence)
    Fail("operand {} ('{}') is a sequence, must be a tensor", i, NameOf(node_.inputs[i]));
  return operand;
}

std::vector<Imported> NodeImport::All() const {
  std::vector<Imported> all;
  for (size_t i = 0; i < operands_.size(); ++i) all.push_back(In(i));
  return all;
}

const ConstTensor& NodeImport::KnownOperand(size_t i, std::string_view role) const {
  const Imported& operand = In(i);
  if (!operand.constant) {
    Fail(
        "operand {} ({} '{}') is computed or has no data, must be a constant; export with fixed "
        "shapes",
        i, role, NameOf(node_.inputs[i]));
  }
  return *operand.constant;
}

std::vector<int64_t> NodeImport::Ints(size_t i, std::string_view role) const {
  return ToInts(KnownOperand(i, role),
                fmt::format("operand {} ({} '{}')", i, role, NameOf(node_.inputs[i])));
}

int64_t NodeImport::ScalarInt(size_t i, std::string_view role) const {
  const auto values = Ints(i, role);
  if (values.size() != 1)
    Fail("operand {} ({}) has {} elements, must have one", i, role, values.size());
  return values.front();
}

std::vector<double> NodeImport::Numbers(size_t i, std::string_view role) const {
  const HostTensor dense = Materialize(KnownOperand(i, role), 64 * 1024);
  std::vector<double> values;
  for (int64_t e = 0; e < dense.size(); ++e) values.push_back(AsDouble(dense, e));
  return values;
}

double NodeImport::Scalar(size_t i, std::string_view role) const {
  const auto values = Numbers(i, role);
  if (values.size() != 1)
    Fail("operand {} ({}) has {} elements, must have one", i, role, values.size());
  return values.front();
}

const OnnxAttribute* NodeImport::Raw(std::string_view name) {
  read_.emplace(name);
  const auto it = node_.attributes.find(name);
  return it == node_.attributes.end() ? nullptr : &it->second;
}

int64_t NodeImport::Int(std::string_view name, std::optional<int64_t> fallback) {
  const OnnxAttribute* attribute = Raw(name);
  if (!attribute && fallback) return *fallback;
  if (!attribute) Fail("attribute '{}' is missing", name);
  if (const auto* value = std::get_if<int64_t>(attribute)) return *value;
  Fail("attribute '{}' must be an integer", name);
}

double NodeImport::Float(std::string_view name, std::optional<double> fallback) {
  const OnnxAttribute* attribute = Raw(name);
  if (!attribute && fallback) return *fallback;
  if (!attribute) Fail("attribute '{}' is missing", name);
  if (const auto* value = std::get_if<double>(attribute)) return *value;
  Fail("attribute '{}' must be a float", name);
}

std::string NodeImport::String(std::string_view name, std::optional<std::string> fallback) {
  const OnnxAttribute* attribute = Raw(name);
  if (!attribute && fallback) return *fallback;
  if (!attribute) Fail("attribute '{}' is missing", name);
  if (const auto* value = std::get_if<std::string>(attribute)) return *value;
  Fail("attribute '{}' must be a string", name);
}

std::vector<int64_t> NodeImport::IntList(std::string_view name,
                                         std::optional<std::vector<int64_t>> fallback) {
  const OnnxAttribute* attribute = Raw(name);
  if (!attribute && fallback) return *fallback;
  if (!attribute) Fail("attribute '{}' is missing", name);
  if (const auto* value = std::get_if<std::vector<int64_t>>(attribute)) return *value;
  Fail("attribute '{}' must be a list of integers", name);
}

int64_t NodeImport::Axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) Fail("axis {} is not one of {} dimensions", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> NodeImport::Axes(const std::vector<int64_t>& axes, int64_t rank) const {
  std::vector<int64_t> out;
  for (const int64_t axis : axes) out.push_back(Axis(axis, rank));
  std::sort(out.begin(), out.end());
  const auto twice = std::adjacent_find(out.begin(), out.end());
  if (twice != out.end()) Fail("axis {} is given twice", *twice);
  return out;
}

void NodeImport::OnlyOutputs(size_t count, std::string_view what) const {
  for (size_t i = count; i < node_.outputs.size(); ++i) {
    if (Used(i))
      Fail("output {} ('{}') is used; {} not supported", i, NameOf(node_.outputs[i]), what);
  }
}

std::vector<Imported> NodeImport::EmitAll(std::string_view op, Attributes attributes,
                                          std::vector<Imported> operands) {
  std::string_view name = node_.name;
  if (!node_.outputs.empty() && node_.outputs.front().valid()) {
    name = NameOf(node_.outputs.front());
  }
  return builder_.Emit(op, std::move(attributes), std::move(operands), name);
}

Imported NodeImport::Emit(std::string_view op, Attributes attributes,
                          std::vector<Imported> operands) {
  return EmitAll(op, std::move(attributes), std::move(operands)).front();
}

Imported NodeImport::IntsConstant(const std::vector<int64_t>& values) {
  return Builder::Constant(MakeTensor(DType::kI64, {static_cast<int64_t>(values.size())}, values));
}

void NodeImport::Return(size_t i, Imported result) {
  if (i < results_.size()) results_[i] = std::move(result);
}

std::vector<std::optional<Imported>> NodeImport::Finish() {
  for (const auto& [name, value] : node_.attributes) {
    if (!read_.contains(name))
      Fail("attribute '{}' is not known to heddle; export without it", name);
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    if (Used(i) && !results_[i]) {
      Fail("output {} ('{}') is used, but this op has no such output here", i,
           NameOf(node_.outputs[i]));
    }
    if (results_[i] && node_.outputs[i].valid())
      builder_.NameResult(*results_[i], NameOf(node_.outputs[i]));
  }
  return std::move(results_);
}

}  // namespace heddle
