// Any text either throws an InputError of one line that names the file, or gives runs with different ids.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "validate/published_runs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heddle;
  std::vector<PublishedRun> runs;
  try {
    runs = ParsePublishedRuns({reinterpret_cast<const char*>(data), size}, "runs.json");
  } catch (const InputError& error) {
    const std::string_view message = error.what();
    HEDDLE_CHECK(message.starts_with("runs.json:"), "{}", message);
    HEDDLE_CHECK(message.find('\n') == message.npos);
    return 0;
  }
  HEDDLE_CHECK(!runs.empty());
  for (const PublishedRun& run : runs) {
    HEDDLE_CHECK_EQ(IsComplete(run), MissingFields(run).empty());
    MeasuredSeconds(run);
  }
  return 0;
}
