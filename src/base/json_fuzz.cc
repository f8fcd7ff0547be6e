// The parser throws an InputError of one line for any text that is not JSON. A text that it accepts is printed and read
// back as the same value.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const heddle::Json json = heddle::ParseJson(text, "input");
    const std::string printed = json.dump();
    HEDDLE_CHECK(heddle::ParseJson(printed, "printed", printed.size()).dump() == printed);
  } catch (const heddle::InputError& error) {
    const std::string_view message = error.what();
    HEDDLE_CHECK(message.starts_with("input:"), "{}", message);
    HEDDLE_CHECK(message.find('\n') == message.npos);
  }
  return 0;
}
