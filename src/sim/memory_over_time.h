// The memory of a device over simulated time.
//
// The list gives the order in which memory is allocated and freed (memory.h), as the host of a real run issues it. The
// times are those of the compute stream. Allocations of other streams count from the end of the preceding compute
// instruction in the list.
#pragma once

#include <vector>

#include "sim/engine.h"
#include "sim/memory.h"

namespace heddle {

struct MemorySample {
  double time = 0;  // valid from this time until the next sample
  MemoryKinds kinds;
  bool operator==(const MemorySample&) const = default;
};

// Samples from 0 to the end of the step, with ascending times. There are at most about 2 x `most`: the step is cut into
// `most` equal parts, and each part keeps its sample with most bytes (the first of equals) and its last one. Takes as
// long as a Replay.
std::vector<MemorySample> MemoryOverTime(const MemoryModel& model, const Prepared& prepared,
                                         const Timeline& timeline, int64_t device,
                                         size_t most = 1000);

}  // namespace heddle
