// A choice of everything but strategies, stages' ends and recomputation: what the search enumerates.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/interface/proposal.h"

namespace heddle {

struct Configuration {
  int64_t dp = 1;             // along this axis every node splits the batch
  std::vector<int64_t> axes;  // along these a node does what suits it; outer first, none of 1
  int64_t pp = 1;
  int64_t microbatches = 1;
  std::string schedule = "1f1b";
  int chunks = 1;
  int zero = 0;
  Offload offload = Offload::kNone;
  auto operator<=>(const Configuration&) const = default;

  int64_t inner() const;  // devices along the axes
  int stages() const { return static_cast<int>(pp) * chunks; }
};

// The degree of a role: 1 of those that the exact search does not have.
int64_t DegreeOf(const Configuration& configuration, AxisRole role);

// "dp 16 x tp 8 x pp 8, 96 micro-batches, 1f1b, ZeRO 1".
std::string ToString(const Configuration& configuration);

// All that the problem allows, in a fixed order: data ranks that divide the batch, as many as there are devices for, or as
// a node has; any divisor of a rank's samples, up to 65536, as the number of micro-batches; every schedule, with up to 16 chunks; ZeRO
// 0 to 3. `wide`: two free axes as well, and axes beyond a node.
// Throws InputError where the fixed degrees contradict each other, with the nearest that do not.
std::vector<Configuration> Enumerate(const SearchTask& task, bool wide);

// The same with the optimizer's state on the host, where that may be chosen: it never is faster, and needs less memory.
std::optional<Configuration> Offloaded(const SearchTask& task, const Configuration& c);

// In words, for the certificate.
std::string SpaceInWords(bool wide);

}  // namespace heddle
