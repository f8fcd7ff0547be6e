// Any text is either rejected with an error of one line, or read as a manifest that prints and reads back the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    heddle::Json json =
        heddle::ToJson(heddle::ManifestFromJson(heddle::ParseJson(text, "input"), "input"));
    HEDDLE_CHECK(heddle::ToJson(heddle::ManifestFromJson(json, "printed")) == json);
  } catch (const heddle::InputError& error) {
    const std::string_view message = error.what();
    HEDDLE_CHECK(message.find('\n') == message.npos);
  }
  return 0;
}
