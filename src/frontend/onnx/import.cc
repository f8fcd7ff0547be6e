#include "frontend/onnx/import.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "frontend/onnx/builder.h"
#include "frontend/onnx/decode.h"
#include "frontend/onnx/node_import.h"
#include "frontend/onnx/parameters.h"
#include "frontend/onnx/sort.h"
#include "frontend/rewriter.h"

namespace heddle {
namespace {

constexpr size_t kMaxListed = 12;  // names in one message

// What a name of the file stands for.
struct NameInfo {
  std::optional<Imported> value;          // once there is one
  const OnnxValueInfo* stated = nullptr;  // what the file says of it
  bool read = false;                      // by a node or as an output
  bool initialized = false;               // then an input of this name is none
};

class Importer {
 public:
  Importer(OnnxModel model, std::string_view file, const ImportOptions& options)
      : model_(std::move(model)),
        file_(file),
        options_(options),
        builder_(std::filesystem::path(file).stem().string(), options),
        names_(model_.names.size()) {
    for (const auto& info : model_.outputs) {
      Info(info.id).stated = &info;
      Info(info.id).read = true;
    }
    for (const auto& info : model_.value_infos) {
      if (!Info(info.id).stated) Info(info.id).stated = &info;
    }
    for (const auto& tensor : model_.initializers) Info(tensor.id).initialized = true;
    for (const auto& node : model_.nodes) {
      for (const OnnxName input : node.inputs) {
        if (input.valid()) Info(input).read = true;
      }
    }
  }

  Graph Run() {
    CheckOpsKnown(model_, file_);
    const std::vector<size_t> order = SortNodes(model_, file_);
    AddInputs();
    AddInitializers();
    for (const size_t index : order) AddNode(model_.nodes[index]);
    const ValueId loss = Loss();
    Graph graph =
        builder_.Finish([&](const std::string& name) { return model_.names.Contains(name); });
    graph.outputs = {loss};
    WarnOfUnreadInputs(graph);
    CheckResult(graph);
    return DropDead(std::move(graph));
  }

 private:
  void AddInputs();
  TensorType InputType(const OnnxValueInfo& input) const;
  void CheckDims() const;
  void AddInitializers();
  void AddNode(const OnnxNode& node);
  void SetValue(OnnxName name, Imported value);
  NameInfo& Info(OnnxName name) { return names_[name.index()]; }
  const NameInfo& Info(OnnxName name) const { return names_[name.index()]; }
  ValueId Loss() const;
  void WarnOfUnreadInputs(const Graph& graph) const;
  void CheckResult(const Graph& graph) const;

  const OnnxModel model_;
  std::string file_;
  const ImportOptions& options_;
  Builder builder_;
  std::vector<NameInfo> names_;  // of model_
};

// The size of a dimension that is stated, or given by name or place; nothing otherwise.
std::optional<int64_t> SizeOfDim(const OnnxValueInfo& input, size_t axis,
                                 const ImportOptions& options) {
  const OnnxDim& dim = (*input.shape)[axis];
  if (dim.size) return dim.size;
  auto it = options.dims.find(fmt::format("{}:{}", input.name, axis));
  if (it == options.dims.end() && !dim.symbol.empty()) it = options.dims.find(dim.symbol);
  if (it == options.dims.end()) return std::nullopt;
  return it->second;
}

// One message for all dimensions that are open, and one for a --dim that fits none.
void Importer::CheckDims() const {
  std::map<std::string, std::string> open;  // name -> the inputs that have it
  std::set<std::string> known;
  for (const OnnxValueInfo& input : model_.inputs) {
    if (Info(input.id).initialized || !input.shape) continue;
    for (size_t axis = 0; axis < input.shape->size(); ++axis) {
      const OnnxDim& dim = (*input.shape)[axis];
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
    if (size < 1) ThrowInput("{}: --dim {}={}: the size must be positive", file_, name, size);
    if (known.contains(name)) continue;
    ThrowInput("{}: --dim {}: no input has this symbolic dimension; they are: {}", file_, name,
               known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
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
  ThrowInput("{}: inputs have symbolic dimensions: {}; give{}", file_, list, example);
}

TensorType Importer::InputType(const OnnxValueInfo& input) const {
  if (!input.tensor) ThrowInput("{}: input '{}' is not a tensor", file_, input.name);
  if (!input.dtype) {
    ThrowInput("{}: input '{}' states no element type that heddle knows", file_, input.name);
  }
  if (!input.shape) {
    ThrowInput("{}: input '{}' states no shape; export with example inputs", file_, input.name);
  }
  TensorType type{*input.dtype, {}};
  for (size_t axis = 0; axis < input.shape->size(); ++axis) {
    type.shape.push_back(SizeOfDim(input, axis, options_).value());
  }
  ByteCount(type, fmt::format("{}: input '{}'", file_, input.name));
  return type;
}

void Importer::AddInputs() {
  CheckDims();
  for (const OnnxValueInfo& input : model_.inputs) {
    if (input.name.empty()) ThrowInput("{}: an input has no name", file_);
    if (Info(input.id).initialized) continue;
    Info(input.id).value = builder_.AddInput(input.name, InputType(input));
  }
}

void Importer::AddInitializers() {
  const ParameterRule rule(model_, file_, options_);
  std::map<std::pair<std::string, Shape>, Imported> tied;
  for (const OnnxTensor& tensor : model_.initializers) {
    if (tensor.name.empty()) ThrowInput("{}: an initializer has no name", file_);
    if (const auto& known = Info(tensor.id).value) {
      ThrowInput("{}: initializer '{}' is given twice, as {} and as {}", file_, tensor.name,
                 ToString(known->type), ToString(tensor.type));
    }
    Imported value;
    if (!rule.IsTrainable(tensor)) {
      value = builder_.AddConstant(tensor.name, tensor.type, tensor.data);
    } else if (const auto it = tied.find({tensor.external, tensor.type.shape});
               it != tied.end() && it->second.type == tensor.type) {
      value = it->second;
    } else {
      value = builder_.AddParameter(tensor.name, tensor.type, tensor.data);
      if (!tensor.external.empty())
        tied.emplace(std::pair(tensor.external, tensor.type.shape), value);
    }
    try {
      SetValue(tensor.id, std::move(value));
    } catch (const InputError& error) {
      ThrowInput("{}: {}", file_, error.what());
    }
  }
}

void Importer::AddNode(const OnnxNode& node) {
  try {
    const OnnxOp& op = *FindOnnxOp(node.op_type);
    const auto given = std::ssize(node.inputs);
    if (given < op.min_inputs || (op.max_inputs >= 0 && given > op.max_inputs)) {
      ThrowInput("has {} operands", given);
    }
    std::vector<const Imported*> operands;
    for (const OnnxName input : node.inputs) {
      operands.push_back(input.valid() ? &Info(input).value.value() : nullptr);
    }
    std::vector<bool> used;
    for (const OnnxName output : node.outputs) {
      used.push_back(output.valid() && Info(output).read);
    }
    NodeImport n(builder_, model_, node, options_, std::move(operands), std::move(used));
    op.import(n);
    auto results = n.Finish();
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i] || !node.outputs[i].valid()) continue;
      SetValue(node.outputs[i], *std::move(results[i]));
    }
  } catch (const InputError& error) {
    ThrowInput("{}: node '{}' ({}): {}", file_, node.name, node.op_type, error.what());
  }
}

// The file may state the type of any value; what it states must be what we find.
void CheckStated(const OnnxValueInfo& stated, const Imported& value) {
  if (value.sequence || !stated.tensor) return;
  bool same = !stated.dtype || *stated.dtype == value.type.dtype;
  std::string text = stated.dtype ? std::string(Name(*stated.dtype)) : "";
  if (stated.shape) {
    same = same && stated.shape->size() == value.shape().size();
    text += "[";
    for (size_t i = 0; i < stated.shape->size(); ++i) {
      const OnnxDim& dim = (*stated.shape)[i];
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

void Importer::SetValue(OnnxName name, Imported value) {
  NameInfo& info = Info(name);
  if (info.stated) CheckStated(*info.stated, value);
  info.value = std::move(value);
}

ValueId Importer::Loss() const {
  std::vector<std::pair<std::string, Imported>> scalars;
  std::string list;
  for (const OnnxValueInfo& output : model_.outputs) {
    const std::optional<Imported>& found = Info(output.id).value;
    if (!found) ThrowInput("{}: output '{}' is produced by no node", file_, output.name);
    const Imported& value = *found;
    const std::string type = value.sequence ? "a sequence" : ToString(value.type);
    list += fmt::format("{}'{}' {}", list.empty() ? "" : ", ", output.name, type);
    if (!value.sequence && value.shape().empty() && IsFloat(value.type.dtype)) {
      scalars.emplace_back(output.name, value);
    }
  }
  if (model_.outputs.empty())
    ThrowInput("{}: has no output; export with the loss as output", file_);
  if (scalars.size() != 1) {
    ThrowInput(
        "{}: needs one scalar float output, the loss; its outputs are {}; export the training "
        "forward pass with the loss",
        file_, list);
  }
  const auto& [name, loss] = scalars.front();
  if (loss.constant || builder_.graph().value(loss.id).kind != ValueKind::kActivation) {
    ThrowInput("{}: output '{}' is not computed from any input", file_, name);
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
      LogWarn("{}: input '{}' is not read and left out", file_, graph.value(id).name);
    }
  }
}

void Importer::CheckResult(const Graph& graph) const {
  const std::vector<std::string> found = VerifyModel(graph);
  if (!found.empty()) ThrowInput("{}: {}", file_, found.front());
}

}  // namespace

Graph ImportOnnx(const std::string& path, const ImportOptions& options) {
  return Importer(DecodeOnnxFile(path), path, options).Run();
}

Graph ImportOnnxBytes(std::string_view bytes, std::string_view file,
                      const std::filesystem::path& folder, const ImportOptions& options) {
  return Importer(DecodeOnnx(bytes, file, folder), file, options).Run();
}

}  // namespace heddle
