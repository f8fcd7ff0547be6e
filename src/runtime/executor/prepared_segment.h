// A segment of a program made ready to run on one device: its kernels, the blocks of each node's iteration space that
// the device computes, and when values are no longer needed.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "program/program.h"
#include "runtime/executor/device_state.h"
#include "runtime/kernels/kernel.h"

namespace heddle {

struct PreparedSegment {
  const Segment* segment = nullptr;
  // Per node:
  std::vector<KernelFn> kernels;
  std::vector<std::vector<Block>> blocks;  // at micro-batch 0, per factor
  std::vector<std::vector<int64_t>>
      shifts;  // per factor: from the block of one micro-batch to that of the next
  std::vector<std::vector<ValueId>> last_uses;  // values that no later node reads
  std::vector<bool> late;  // where B and W are apart, its weight gradients are W's

  std::vector<size_t> late_nodes;

  std::vector<Block> BlocksOf(size_t node, int microbatch) const;
};

using PreparedSegments = std::map<std::pair<StageId, SegmentId>, PreparedSegment>;

// All segments of the stages that the device is in. Where the program is forward only, dropout and the like keep
// everything. Their program outlives them. O(nodes).
PreparedSegments PrepareSegments(const DeviceState& state);

}  // namespace heddle
