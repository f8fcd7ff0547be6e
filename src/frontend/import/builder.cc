#include "frontend/import/builder.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/hash.h"
#include "ops/op.h"
#include "ops/rule.h"
#include "ops/traits.h"

namespace heddle {
namespace {

bool IsSplat(const Imported& operand, double value) {
  return operand.constant && SplatValue(*operand.constant) == value;
}

}  // namespace

std::optional<Shape> BroadcastShapes(const std::vector<Shape>& shapes) {
  Shape result;
  for (const Shape& shape : shapes) {
    if (shape.size() > result.size())
      result.insert(result.begin(), shape.size() - result.size(), 1);
    const size_t shift = result.size() - shape.size();
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t& out = result[shift + i];
      if (shape[i] == out || shape[i] == 1) continue;
      if (out != 1) return std::nullopt;
      out = shape[i];
    }
  }
  return result;
}

Builder::Builder(std::string graph_name, const ImportOptions& options)
    : constant_bytes_left_(options.max_constant_bytes) {
  graph_.name = std::move(graph_name);
}

Imported Builder::AddInput(const std::string& name, TensorType type) {
  const ValueId id = graph_.AddValue(name, type, ValueKind::kInput);
  return {std::move(type), id, std::nullopt, nullptr};
}

Imported Builder::AddParameter(const std::string& name, TensorType type,
                               std::shared_ptr<const HostTensor> data) {
  const ValueId id = graph_.AddValue(name, type, ValueKind::kParameter, std::move(data));
  return {std::move(type), id, std::nullopt, nullptr};
}

Imported Builder::AddConstant(std::string_view name, TensorType type,
                              std::shared_ptr<const HostTensor> data) {
  if (!data) {
    const ValueId id = graph_.AddValue(std::string(name), type, ValueKind::kConstant);
    return {std::move(type), id, std::nullopt, nullptr};
  }
  Imported constant = Constant(Compress(*data));
  file_names_.emplace(constant.constant->storage.get(), name);
  return constant;
}

Imported Builder::Constant(ConstTensor tensor) {
  Imported result;
  result.type = tensor.type();
  result.constant = std::move(tensor);
  return result;
}

Imported Builder::Constant(HostTensor tensor) { return Constant(Compress(std::move(tensor))); }

Imported Builder::Splat(DType dtype, const Shape& shape, double value) {
  // An empty tensor has no repeated elements: its storage has its full shape.
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  const Shape stored = empty ? shape : Shape(shape.size(), 1);
  HostTensor storage(dtype, stored);
  if (!empty) storage = MakeTensor(dtype, stored, std::array<double, 1>{value});
  return Constant(ConstTensor{shape, std::make_shared<HostTensor>(std::move(storage))});
}

bool Builder::TakeConstantBytes(int64_t bytes) {
  if (bytes > constant_bytes_left_) return false;
  constant_bytes_left_ -= bytes;
  return true;
}

void Builder::NameResult(const Imported& result, std::string_view name) {
  if (result.constant) {
    file_names_.emplace(result.constant->storage.get(), name);
  } else if (result.id.valid() && graph_.value(result.id).name.empty()) {
    graph_.value(result.id).name = name;
  }
}

Graph Builder::Finish(const std::function<bool(const std::string&)>& reserved) {
  std::unordered_map<std::string_view, int64_t> counts;
  for (const auto& [id, name] : unnamed_) {
    std::string& fresh = graph_.value(id).name;
    if (!fresh.empty()) continue;
    const std::string_view base = name.empty() ? "value" : name;
    int64_t& count = counts[base];
    do {
      fresh = fmt::format("{}.{}", base, count++);
    } while (reserved(fresh));
  }
  return std::move(graph_);
}

std::vector<Imported> Builder::Emit(std::string_view op, Attributes attributes,
                                    std::vector<Imported> operands, std::string_view name) {
  std::vector<TensorType> types;
  for (const Imported& operand : operands) types.push_back(operand.type);
  const std::vector<TensorType> results = ResultTypes(MakeRule(op, attributes, types));
  if (auto same = Simplify(op, attributes, operands, results)) return {*std::move(same)};
  if (auto known = Evaluate(op, attributes, operands, results)) return *std::move(known);

  std::vector<ValueId> ids = Materialise(op, operands, results.front().shape, name);
  const NodeId node = graph_.AddNode(std::string(op), std::move(attributes), std::move(ids));
  std::vector<Imported> out;
  for (const TensorType& type : results) {
    const ValueId id = AddUnnamedResult(node, type, name);
    out.push_back({type, id, std::nullopt, nullptr});
  }
  return out;
}

ValueId Builder::AddUnnamedResult(NodeId node, TensorType type, std::string_view name) {
  const ValueId id = graph_.AddResult(node, "", std::move(type));
  unnamed_.emplace_back(id, name);
  return id;
}

// Recognises ops that return an operand unchanged.
std::optional<Imported> Builder::Simplify(std::string_view op, const Attributes& attributes,
                                          const std::vector<Imported>& operands,
                                          const std::vector<TensorType>& results) const {
  if (operands.empty() || results.size() != 1) return std::nullopt;
  const OpTraits& traits = TraitsOf(op);
  const Imported& first = operands.front();
  const bool same_type = first.type == results.front();
  if (operands.size() == 2) {
    const Imported& second = operands.back();
    const bool same_second = second.type == results.front();
    if (!traits.neutral) return std::nullopt;
    const NeutralElement& neutral = *traits.neutral;
    if (same_type && IsSplat(second, neutral.value)) return first;
    if (neutral.left && same_second && IsSplat(first, neutral.value)) return second;
    return std::nullopt;
  }
  if (!same_type || operands.size() != 1 || traits.identity == nullptr) return std::nullopt;
  if (traits.identity(attributes)) return first;
  return std::nullopt;
}

std::optional<std::vector<Imported>> Builder::Evaluate(std::string_view op,
                                                       const Attributes& attributes,
                                                       const std::vector<Imported>& operands,
                                                       const std::vector<TensorType>& results) {
  const bool random = TraitsOf(op).randomness != Randomness::kNone;
  if (operands.empty() || random || constant_bytes_left_ <= 0) return std::nullopt;
  std::vector<ConstTensor> constants;
  for (const Imported& operand : operands) {
    if (!operand.constant) return std::nullopt;
    constants.push_back(*operand.constant);
  }
  auto known = EvaluateConstant(op, attributes, constants, results);
  if (!known) return std::nullopt;
  std::vector<Imported> out;
  for (ConstTensor& tensor : *known) {
    constant_bytes_left_ -= static_cast<int64_t>(tensor.storage->data.size());
    out.push_back(Constant(std::move(tensor)));
  }
  return out;
}

// Makes the operands values of the graph. A constant that repeats stays small where broadcasting gives the same result;
// otherwise an Expand repeats it.
std::vector<ValueId> Builder::Materialise(std::string_view op, std::vector<Imported>& operands,
                                          const Shape& result, std::string_view name) {
  const bool broadcasts = TraitsOf(op).broadcasts;
  std::vector<Shape> shapes;
  for (const Imported& operand : operands) shapes.push_back(operand.shape());
  std::vector<ValueId> ids;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Imported& operand = operands[i];
    if (!operand.constant) {
      ids.push_back(operand.id);
      continue;
    }
    bool shrunken = false;
    if (broadcasts) {
      const Shape full = shapes[i];
      shapes[i] = operand.constant->storage->shape;
      shrunken = BroadcastShapes(shapes) == result;
      if (!shrunken) shapes[i] = full;
    }
    ids.push_back(ValueOf(*operand.constant, shrunken, name));
  }
  return ids;
}

ValueId Builder::ValueOf(const ConstTensor& tensor, bool shrunken, std::string_view name) {
  const HostTensor& storage = *tensor.storage;
  ValueId id;
  if (const auto it = constants_.find(&storage); it != constants_.end()) {
    id = it->second;
  } else {
    // Equal constants become one value, because every layer may have its own copy of a table.
    std::vector<ValueId>& alike = equal_[HashBytes(storage.data.data(), storage.data.size())];
    const auto same = std::find_if(alike.begin(), alike.end(), [&](ValueId other) {
      return *graph_.value(other).data == storage;
    });
    if (same != alike.end()) {
      id = *same;
    } else {
      const auto named = file_names_.find(&storage);
      const bool whole = storage.shape == tensor.shape && named != file_names_.end();
      id = graph_.AddValue(std::string(whole ? named->second : ""), storage.type(),
                           ValueKind::kConstant, tensor.storage);
      if (whole) {
        file_names_.erase(named);  // each name is used once
      } else {
        unnamed_.emplace_back(id, name);
      }
      alike.push_back(id);
      constants_.emplace(&storage, id);
    }
  }
  if (shrunken || storage.shape == tensor.shape) return id;
  ValueId& wide = expanded_[{id, tensor.shape}];
  if (!wide.valid()) {
    const NodeId node = graph_.AddNode("Expand", {{"shape", tensor.shape}}, {id});
    wide = AddUnnamedResult(node, {storage.dtype, tensor.shape}, name);
  }
  return wide;
}

}  // namespace heddle
