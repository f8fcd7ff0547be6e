// Any text either is refused with an InputError or gives a graph whose text reads back as the same graph.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "graph/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace heddle;
  // Limits are small for everything that costs memory, so that runs stay fast.
  const TextLimits limits = {.name_bytes = 64, .splat_bytes = 1 << 16, .all_splat_bytes = 1 << 18};
  Graph graph;
  try {
    graph = FromText({reinterpret_cast<const char*>(data), size}, "fuzz", limits);
  } catch (const InputError&) {
    return 0;
  }
  HEDDLE_CHECK(Verify(graph).empty());
  std::string text = ToText(graph);
  std::string again = ToText(FromText(text, "again", limits));
  HEDDLE_CHECK(text == again, "{}\n-- against\n{}", text, again);
  return 0;
}
