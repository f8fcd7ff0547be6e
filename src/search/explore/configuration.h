// Configurations: everything in a plan except strategies, the ends of stages and recomputation. The
// search enumerates them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/interface/proposal.h"

namespace heddle {

struct Configuration {
  int64_t dp = 1;  // along this axis every node splits the batch
  // Sizes of the axes along which nodes choose what to split; outer first, each larger than 1.
  std::vector<int64_t> axes;
  int64_t pp = 1;
  int64_t microbatches = 1;
  std::string schedule = "1f1b";
  int chunks = 1;
  int zero = 0;
  Offload offload = Offload::kNone;
  auto operator<=>(const Configuration&) const = default;

  int64_t inner() const;  // devices along `axes`
  int stages() const { return static_cast<int>(pp) * chunks; }
};

// The degree of a role: 1 of those that the exact search does not have.
int64_t DegreeOf(const Configuration& configuration, AxisRole role);

// "dp 16 x tp 8 x pp 8, 96 micro-batches, 1f1b, ZeRO 1".
std::string ToString(const Configuration& configuration);

// All configurations that the problem allows, in a fixed order. Data ranks divide the batch; as
// many as there are devices for, or as a machine has. The number of micro-batches is any divisor of
// a rank's samples, up to 65536. All schedules, with up to 16 chunks; ZeRO 0 to 3. `wide`: two free
// axes as well, and axes that span machines. Throws InputError where the fixed degrees contradict
// each other, with the nearest degrees that do not.
std::vector<Configuration> Enumerate(const SearchTask& task, bool wide);

// The same with optimizer state on the host, where the problem allows it. It is never faster but
// needs less memory.
std::optional<Configuration> Offloaded(const SearchTask& task, const Configuration& c);

// Describes the space of the bound in words.
std::string SpaceInWords(bool wide);

}  // namespace heddle
