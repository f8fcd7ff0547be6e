// The format of ONNX files. Without protobuf they are recognised and refused.
#include <algorithm>

#include "base/error.h"
#include "frontend/formats.h"
#ifdef HEDDLE_WITH_ONNX
#include <filesystem>

#include "base/file.h"
#include "frontend/fuse.h"
#include "frontend/gzip.h"
#include "frontend/onnx/import.h"
#endif

namespace heddle {
namespace {

Recognition RecogniseOnnx(const std::string& model) {
  return std::max(ByEnding(model, ".onnx"), ByEnding(model, ".onnx.gz"));
}

#ifdef HEDDLE_WITH_ONNX

constexpr int64_t kMaxUnzippedBytes = int64_t{2} << 30;

Graph ImportOnnxFile(const std::string& path, const ImportOptions& options) {
  if (!path.ends_with(".gz")) return ImportOnnx(path, options);
  std::string bytes = Gunzip(ReadFile(path, kMaxUnzippedBytes), path, kMaxUnzippedBytes);
  std::filesystem::path file(path);
  return ImportOnnxBytes(bytes, file.replace_extension().string(), file.parent_path(), options);
}

Graph LoadOnnx(const std::string& path, const ImportOptions& options) {
  Graph graph = RunPasses(ImportOnnxFile(path, options), CleanUpPasses());
  if (options.fuse) graph = RunPasses(std::move(graph), FusionPasses());
  return RunPasses(std::move(graph), LayoutPasses());
}

#else

Graph LoadOnnx(const std::string& path, const ImportOptions&) {
  ThrowInput(
      "{}: this heddle was built without ONNX (protobuf); export a .heddle file elsewhere "
      "with 'heddle export'",
      path);
}

#endif

}  // namespace

FormatDef OnnxFormat() {
  return {.name = "onnx",
          .help = "an .onnx file (also gzipped)",
          .file = ".onnx",
          .recognise = RecogniseOnnx,
          .load = LoadOnnx};
}

}  // namespace heddle
