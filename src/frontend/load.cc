#include "frontend/load.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "frontend/families/built_in.h"
#include "frontend/fuse.h"
#include "frontend/gzip.h"
#include "frontend/hf_config.h"
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

Graph LoadText(const std::string& path) {
  Graph graph = FromText(ReadFile(path, kMaxTextBytes), path);
  try {
    CheckTypes(graph);
  } catch (const InputError& error) {
    ThrowInput("{}: {}", path, error.what());
  }
  if (std::vector<std::string> wrong = VerifyModel(graph); !wrong.empty()) {
    ThrowInput("{}: {}", path, wrong.front());
  }
  return graph;
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
  return graph;
#else
  (void)options;
  ThrowInput("{}: this heddle was built without ONNX (protobuf); export a .heddle file elsewhere "
             "with 'heddle export'",
             path);
#endif
}

// `--dim batch=8` is a key like any other.
Graph LoadBuiltIn(const std::string& model, const ImportOptions& options) {
  std::vector<KeyValue> overrides;
  for (const auto& [name, size] : options.dims) overrides.emplace_back(name, fmt::format("{}", size));
  return BuildModel(model, overrides);
}

}  // namespace

Graph LoadModel(const std::string& model, const ImportOptions& options) {
  if (model.ends_with(".heddle")) return LoadText(model);
  if (model.ends_with(".onnx") || model.ends_with(".onnx.gz")) return LoadOnnx(model, options);
  if (model.ends_with(".json")) return LoadHfConfig(model, options);
  if (IsBuiltIn(model)) return LoadBuiltIn(model, options);
  ThrowInput("model '{}' is neither an .onnx, .heddle or config.json file nor a built-in{} ('heddle models' "
             "lists these)",
             model, NearestBuiltIns(model));
}

void LoadWeights(Graph& graph, const std::string& path) {
  AttachData(graph, SafetensorsFile::Open(path).LoadAll(), path);
}

}  // namespace heddle
