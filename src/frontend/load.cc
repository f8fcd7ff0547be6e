#include "frontend/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "frontend/families/built_in.h"
#include "frontend/fuse.h"
#include "frontend/glob.h"
#include "frontend/gzip.h"
#include "frontend/hf_config.h"
#include "frontend/rewriter.h"
#include "graph/safetensors.h"
#include "graph/text.h"
#include "ops/op.h"
#ifdef HEDDLE_WITH_ONNX
#include "frontend/onnx/import.h"
#endif

namespace heddle {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{1} << 30;
constexpr int64_t kMaxUnzippedBytes = int64_t{2} << 30;

// Parameters that match become constants.
void Freeze(Graph& graph, const std::vector<std::string>& patterns, const std::string& path) {
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (Value& value : graph.values) {
      if (value.kind != ValueKind::kParameter || !GlobMatch(pattern, value.name)) continue;
      value.kind = ValueKind::kConstant;
      any = true;
    }
    if (!any) ThrowInput("{}: --frozen {} matches no parameter", path, pattern);
  }
}

Graph LoadText(const std::string& path, const ImportOptions& options) {
  if (!options.dims.empty()) {
    ThrowInput("{}: --dim {}: a .heddle file has no symbolic dimensions", path,
               options.dims.begin()->first);
  }
  if (!options.fuse) ThrowInput("{}: --no-fuse: a .heddle file is taken as it is", path);
  Graph graph = FromText(ReadFile(path, kMaxTextBytes), path);
  try {
    CheckTypes(graph);
  } catch (const InputError& error) {
    ThrowInput("{}: {}", path, error.what());
  }
  if (std::vector<std::string> wrong = VerifyModel(graph); !wrong.empty()) {
    ThrowInput("{}: {}", path, wrong.front());
  }
  Freeze(graph, options.frozen, path);
  return DropDead(std::move(graph));
}

Graph LoadOnnx(const std::string& path, const ImportOptions& options) {
#ifdef HEDDLE_WITH_ONNX
  Graph graph;
  if (path.ends_with(".gz")) {
    std::string bytes = Gunzip(ReadFile(path, kMaxUnzippedBytes), path, kMaxUnzippedBytes);
    std::filesystem::path file(path);
    graph = ImportOnnxBytes(bytes, file.replace_extension().string(), file.parent_path(), options);
  } else {
    graph = ImportOnnx(path, options);
  }
  graph = RunPasses(std::move(graph), CleanUpPasses());
  if (options.fuse) graph = RunPasses(std::move(graph), FusionPasses());
  return RunPasses(std::move(graph), LayoutPasses());
#else
  (void)options;
  ThrowInput(
      "{}: this heddle was built without ONNX (protobuf); export a .heddle file elsewhere "
      "with 'heddle export'",
      path);
#endif
}

void RequireFused(const std::string& model, const ImportOptions& options) {
  if (!options.fuse) ThrowInput("{}: --no-fuse: a model without a file is built fused", model);
}

// `--dim batch=8` is a key like any other.
Graph LoadBuiltIn(const std::string& model, const ImportOptions& options) {
  RequireFused(model, options);
  std::vector<KeyValue> overrides;
  std::vector<KeyValue> own;
  try {
    if (!options.dims.empty()) own = ParseExpression(model).values;
  } catch (const InputError& error) {
    ThrowInput("{}: {}", model, error.what());
  }
  for (const auto& [name, size] : options.dims) {
    overrides.emplace_back(name, fmt::format("{}", size));
    auto said = std::ranges::find(own, name, &KeyValue::first);
    if (said != own.end() && said->second != overrides.back().second) {
      ThrowInput("{}: --dim {}={}: the model itself says {}={}: give one of them", model, name,
                 size, name, said->second);
    }
  }
  Graph graph = RunPasses(BuildModel(model, overrides), LayoutPasses());
  Freeze(graph, options.frozen, model);
  return graph;
}

Graph LoadConfig(const std::string& path, const ImportOptions& options) {
  RequireFused(path, options);
  Graph graph = RunPasses(LoadHfConfig(path, options), LayoutPasses());
  Freeze(graph, options.frozen, path);
  return graph;
}

}  // namespace

Graph LoadModel(const std::string& model, const ImportOptions& options) {
  if (model.ends_with(".heddle")) return LoadText(model, options);
  if (model.ends_with(".onnx") || model.ends_with(".onnx.gz")) return LoadOnnx(model, options);
  if (model.ends_with(".json")) return LoadConfig(model, options);
  if (IsBuiltIn(model)) return LoadBuiltIn(model, options);
  ThrowInput(
      "model '{}' is neither an .onnx, .heddle or config.json file nor a built-in{} ('heddle "
      "models' "
      "lists these)",
      model, NearestBuiltIns(model));
}

void LoadWeights(Graph& graph, const std::string& path) {
  std::map<std::string, HostTensor> tensors = SafetensorsFile::Open(path).LoadAll();
  bool any = std::any_of(graph.values.begin(), graph.values.end(), [&](const Value& value) {
    bool holds = value.kind == ValueKind::kParameter || value.kind == ValueKind::kConstant;
    return holds && tensors.contains(value.name);
  });
  if (!any)
    ThrowInput("{}: none of its {} tensors is a parameter of the model", path, tensors.size());
  std::set<std::string> known;
  for (const Value& value : graph.values) known.insert(value.name);
  std::vector<std::string> extra;
  for (const auto& [name, tensor] : tensors) {
    if (!known.contains(name)) extra.push_back(name);
  }
  if (!extra.empty()) {
    ThrowInput("{}: {} of its {} tensors are not of the model: {}; leave them out", path,
               extra.size(), tensors.size(), fmt::join(extra, ", "));
  }
  AttachData(graph, std::move(tensors), path);
}

}  // namespace heddle
