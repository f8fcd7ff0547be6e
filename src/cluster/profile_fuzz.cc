// Any text is a profile or is refused; what is read is written and read back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cluster/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    heddle::Profile profile =
        heddle::ProfileFromJson({reinterpret_cast<const char*>(data), size}, "fuzz");
    heddle::Json json = heddle::ToJson(profile);
    std::string text = json.dump(-1, ' ', false, heddle::Json::error_handler_t::replace);
    heddle::Profile again = heddle::ProfileFromJson(text, "again");
    if (again.products != profile.products || again.launch != profile.launch) std::abort();
    if (again.loads != profile.loads) std::abort();
  } catch (const heddle::InputError&) {
  }
  return 0;
}
