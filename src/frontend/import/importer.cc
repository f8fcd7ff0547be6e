#include "frontend/import/importer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "frontend/rewriter.h"
#include "graph/graph.h"

namespace heddle {
namespace {

constexpr size_t kMaxListed = 12;  // names in one message

// The size of a dimension that the file states or the options give by name or place; empty otherwise.
std::optional<int64_t> SizeOfDim(const StatedValue& input, size_t axis,
                                 const ImportOptions& options) {
  const StatedDim& dim = (*input.shape)[axis];
  if (dim.size) return dim.size;
  auto it = options.dims.find(fmt::format("{}:{}", input.name, axis));
  if (it == options.dims.end() && !dim.symbol.empty()) it = options.dims.find(dim.symbol);
  if (it == options.dims.end()) return std::nullopt;
  return it->second;
}

// Checks the type that the file states for a value against the type that import finds.
void CheckStated(const StatedValue& stated, const Imported& value) {
  if (value.sequence || !stated.tensor) return;
  bool same = !stated.dtype || *stated.dtype == value.type.dtype;
  std::string text = stated.dtype ? std::string(Name(*stated.dtype)) : "";
  if (stated.shape) {
    same = same && stated.shape->size() == value.shape().size();
    text += "[";
    for (size_t i = 0; i < stated.shape->size(); ++i) {
      const StatedDim& dim = (*stated.shape)[i];
      same = same && (!dim.size || *dim.size == value.shape()[i]);
      text += fmt::format("{}{}", i ? "," : "", dim.size ? fmt::format("{}", *dim.size) : "?");
    }
    text += "]";
  }
  if (!same) {
    ThrowInput("value '{}' is {}, but the file states {}; export it again", stated.name,
               ToString(value.type), text);
  }
}

}  // namespace

void CheckOpsKnown(const ModelFile& file, std::string_view path,
                   const OpImport* (*find)(std::string_view)) {
  std::map<std::string, int64_t> unknown;
  for (const OpCall& call : file.calls) {
    if (find(call.op) == nullptr) ++unknown[call.op];
  }
  if (unknown.empty()) return;
  std::string list;
  size_t listed = 0;
  for (const auto& [op, count] : unknown) {
    if (listed++ == 4 * kMaxListed) {
      list += fmt::format(", and {} more", unknown.size() - 4 * kMaxListed);
      break;
    }
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", op, count);
  }
  ThrowInput("{}: uses {} ops that heddle does not know: {}; export without them or add them", path,
             unknown.size(), list);
}

Importer::Importer(const ModelFile& file, std::string_view path, const ImportOptions& options)
    : file_(file),
      path_(path),
      options_(options),
      builder_(std::filesystem::path(path).stem().string(), options),
      names_(file.names.size()) {
  for (const StatedValue& output : file_.outputs) {
    Info(output.id).stated = &output;
    Info(output.id).read = true;
  }
  for (const StatedValue& value : file_.values) {
    if (!Info(value.id).stated) Info(value.id).stated = &value;
  }
  for (const FileTensor& tensor : file_.tensors) Info(tensor.id).is_tensor = true;
  for (const OpCall& call : file_.calls) {
    for (const CallName operand : call.operands) {
      if (operand.valid()) Info(operand).read = true;
    }
  }
}

// Throws one error for all open dimensions, and one for a --dim that matches none.
void Importer::CheckDims() const {
  std::map<std::string, std::string> open;  // name -> the inputs that have it
  std::set<std::string> known;
  for (const StatedValue& input : file_.inputs) {
    if (Info(input.id).is_tensor || !input.shape) continue;
    for (size_t axis = 0; axis < input.shape->size(); ++axis) {
      const StatedDim& dim = (*input.shape)[axis];
      if (dim.size) continue;
      const std::string place = fmt::format("{}:{}", input.name, axis);
      known.insert(place);
      if (!dim.symbol.empty()) known.insert(dim.symbol);
      if (SizeOfDim(input, axis, options_)) continue;
      std::string& places = open[dim.symbol.empty() ? place : dim.symbol];
      places += (places.empty() ? "" : " ") + place;
    }
  }
  for (const auto& [name, size] : options_.dims) {
    if (size < 1) ThrowInput("{}: --dim {}={}: the size must be positive", path_, name, size);
    if (known.contains(name)) continue;
    ThrowInput("{}: --dim {}: no input has this symbolic dimension; symbolic dimensions are: {}",
               path_, name, known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
  }
  if (open.empty()) return;
  std::string list, example;
  size_t listed = 0;
  for (const auto& [name, places] : open) {
    if (listed++ == kMaxListed) {
      list += ", ...";
      break;
    }
    list += fmt::format("{}{} (of {})", list.empty() ? "" : ", ", name, places);
    example += fmt::format(" --dim {}=N", name);
  }
  ThrowInput("{}: inputs have symbolic dimensions: {}; give{}", path_, list, example);
}

TensorType Importer::InputType(const StatedValue& input) const {
  if (!input.tensor) ThrowInput("{}: input '{}' is not a tensor", path_, input.name);
  if (!input.dtype) {
    ThrowInput("{}: input '{}' has no element type that heddle supports", path_, input.name);
  }
  if (!input.shape) {
    ThrowInput("{}: input '{}' has no shape; export with example inputs", path_, input.name);
  }
  TensorType type{*input.dtype, {}};
  for (size_t axis = 0; axis < input.shape->size(); ++axis) {
    type.shape.push_back(SizeOfDim(input, axis, options_).value());
  }
  ByteCount(type, fmt::format("{}: input '{}'", path_, input.name));
  return type;
}

void Importer::AddInputs() {
  CheckDims();
  for (const StatedValue& input : file_.inputs) {
    if (input.name.empty()) ThrowInput("{}: an input has no name", path_);
    if (Info(input.id).is_tensor) continue;
    Info(input.id).value = builder_.AddInput(input.name, InputType(input));
  }
}

Imported Importer::ValueOf(const FileTensor& tensor, bool trained) {
  if (!trained) return builder_.AddConstant(tensor.name, tensor.type, tensor.data);
  const auto known = tied_.find({tensor.storage, tensor.type.shape});
  if (known != tied_.end() && known->second.type == tensor.type) return known->second;
  const Imported value = builder_.AddParameter(tensor.name, tensor.type, tensor.data);
  if (!tensor.storage.empty()) tied_.emplace(std::pair(tensor.storage, tensor.type.shape), value);
  return value;
}

void Importer::AddTensor(const FileTensor& tensor, bool trained) {
  Imported value = ValueOf(tensor, trained);
  try {
    SetValue(tensor.id, std::move(value));
  } catch (const InputError& error) {
    ThrowInput("{}: {}", path_, error.what());
  }
}

void Importer::AddCall(const OpCall& call, const OpImport& op) {
  try {
    const auto given = std::ssize(call.operands);
    if (given < op.min_operands || (op.max_operands >= 0 && given > op.max_operands)) {
      ThrowInput("has {} operands", given);
    }
    std::vector<const Imported*> operands;
    for (const CallName input : call.operands) {
      operands.push_back(input.valid() ? &Info(input).value.value() : nullptr);
    }
    std::vector<bool> used;
    for (const CallName output : call.results) {
      used.push_back(output.valid() && Info(output).read);
    }
    CallImport n(builder_, file_, call, options_, std::move(operands), std::move(used));
    op.import(n);
    auto results = n.Finish();
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i] || !call.results[i].valid()) continue;
      SetValue(call.results[i], *std::move(results[i]));
    }
  } catch (const InputError& error) {
    ThrowInput("{}: node '{}' ({}): {}", path_, call.name, call.op, error.what());
  }
}

const Imported* Importer::Find(CallName name) const {
  const std::optional<Imported>& value = Info(name).value;
  return value ? &*value : nullptr;
}

void Importer::SetValue(CallName name, Imported value) {
  NameInfo& info = Info(name);
  if (info.stated) CheckStated(*info.stated, value);
  info.value = std::move(value);
}

ValueId Importer::Loss() const {
  std::vector<std::pair<std::string, Imported>> scalars;
  std::string list;
  for (const StatedValue& output : file_.outputs) {
    const std::optional<Imported>& found = Info(output.id).value;
    if (!found) ThrowInput("{}: output '{}' is produced by no node", path_, output.name);
    const Imported& value = *found;
    const std::string type = value.sequence ? "a sequence" : ToString(value.type);
    list += fmt::format("{}'{}' {}", list.empty() ? "" : ", ", output.name, type);
    if (!value.sequence && value.shape().empty() && IsFloat(value.type.dtype)) {
      scalars.emplace_back(output.name, value);
    }
  }
  if (file_.outputs.empty()) ThrowInput("{}: has no output; export with the loss as output", path_);
  if (scalars.size() != 1) {
    ThrowInput(
        "{}: needs one scalar float output, the loss; its outputs are {}; export the training "
        "forward pass with the loss",
        path_, list);
  }
  const auto& [name, loss] = scalars.front();
  if (loss.constant || builder_.graph().value(loss.id).kind != ValueKind::kActivation) {
    ThrowInput("{}: output '{}' is not computed from any input", path_, name);
  }
  return loss.id;
}

void Importer::WarnOfUnreadInputs(const Graph& graph) const {
  std::vector<bool> read(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    for (const ValueId operand : node.operands) read[operand.index()] = true;
  }
  for (const ValueId id : graph.ValuesOf(ValueKind::kInput)) {
    if (!read[id.index()]) {
      LogWarn("{}: input '{}' is not used and is left out", path_, graph.value(id).name);
    }
  }
}

Graph Importer::Finish() {
  const ValueId loss = Loss();
  Graph graph =
      builder_.Finish([&](const std::string& name) { return file_.names.Contains(name); });
  graph.outputs = {loss};
  WarnOfUnreadInputs(graph);
  const std::vector<std::string> found = VerifyModel(graph);
  if (!found.empty()) ThrowInput("{}: {}", path_, found.front());
  return DropDead(std::move(graph));
}

}  // namespace heddle
