// Any text is a profile or is refused. A profile that was read is written and read back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cluster/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    std::vector<heddle::Profile> profiles =
        heddle::ProfilesFromJson({reinterpret_cast<const char*>(data), size}, "fuzz");
    heddle::Json json = heddle::ToJson(profiles);
    std::string text = json.dump(-1, ' ', false, heddle::Json::error_handler_t::replace);
    std::vector<heddle::Profile> again = heddle::ProfilesFromJson(text, "again");
    if (again.size() != profiles.size()) std::abort();
    for (size_t i = 0; i < again.size(); ++i) {
      if (again[i].products != profiles[i].products) std::abort();
      if (again[i].launch != profiles[i].launch || again[i].loads != profiles[i].loads)
        std::abort();
    }
  } catch (const heddle::InputError&) {
  }
  return 0;
}
