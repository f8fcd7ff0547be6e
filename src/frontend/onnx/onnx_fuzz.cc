// Any bytes either are imported and then pass the rewrites, or give an InputError.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "frontend/fuse.h"
#include "frontend/onnx/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  heddle::SetLogLevel(heddle::LogLevel::kQuiet);
  heddle::ImportOptions options;
  options.max_constant_bytes = 1 << 20;
  try {
    heddle::Graph graph = heddle::ImportOnnxBytes({reinterpret_cast<const char*>(data), size},
                                                  "fuzz.onnx", "/nonexistent/folder", options);
    graph = heddle::RunPasses(std::move(graph), heddle::CleanUpPasses());
    graph = heddle::RunPasses(std::move(graph), heddle::FusionPasses());
    heddle::RunPasses(std::move(graph), heddle::LayoutPasses());
  } catch (const heddle::InputError&) {
  }
  return 0;
}
