// What a device holds when, in simulated time.
//
// The list says in which order memory is taken and given back (memory.h), as the host of a real run issues it; the
// times are those of the compute stream. What other streams take or give back counts from the end of the compute
// instruction before it in the list.
#pragma once

#include <vector>

#include "sim/engine.h"
#include "sim/memory.h"

namespace heddle {

struct MemorySample {
  double time = 0;  // from then on, until the next
  MemoryKinds kinds;
  bool operator==(const MemorySample&) const = default;
};

// From 0 to the end of the step, times ascending, at most about 2 x `most` samples: the step is cut into `most` equal
// parts, of each stays the sample that holds most (the first of equals) and the last. Costs a Replay.
std::vector<MemorySample> MemoryOverTime(const MemoryModel& model, const Prepared& prepared,
                                         const Timeline& timeline, int64_t device,
                                         size_t most = 1000);

}  // namespace heddle
