// Any text either throws an InputError of one line that begins with the file and a line number, or gives jobs within
// the limits with different names.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "fleet/jobs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heddle;
  FleetSpec fleet;
  try {
    fleet = JobsFromYaml({reinterpret_cast<const char*>(data), size}, "f.yaml");
  } catch (const InputError& error) {
    const std::string_view message = error.what();
    HEDDLE_CHECK(message.starts_with("f.yaml:"), "{}", message);
    HEDDLE_CHECK(message.size() > 7 && message[7] >= '1' && message[7] <= '9', "{}", message);
    HEDDLE_CHECK(message.find('\n') == message.npos);
    return 0;
  }
  HEDDLE_CHECK(!fleet.jobs.empty() && fleet.jobs.size() <= static_cast<std::size_t>(kMaxJobs));
  std::set<std::string> names;
  for (const JobSpec& job : fleet.jobs) {
    HEDDLE_CHECK(names.insert(job.name).second && !job.model.empty());
    HEDDLE_CHECK(StepsOf(job, job.batch > 0 ? job.batch : 1) >= 1);
  }
  return 0;
}
