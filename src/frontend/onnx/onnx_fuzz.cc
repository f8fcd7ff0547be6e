// Any bytes either import or give an InputError.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "frontend/onnx/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  heddle::SetLogLevel(heddle::LogLevel::kQuiet);
  heddle::ImportOptions options;
  options.max_constant_bytes = 1 << 20;
  try {
    heddle::ImportOnnxBytes({reinterpret_cast<const char*>(data), size}, "fuzz.onnx",
                            "/nonexistent/folder", options);
  } catch (const heddle::InputError&) {
  }
  return 0;
}
