// The nodes of a stage cut into segments.
//
// A segment ends
//   - where a reader needs communication first: it needs its operand in another sharding than the producer's result has,
//     or computes a gradient in another sharding than the producer needs;
//   - at the boundaries of folded blocks, and where recomputation begins and ends;
//   - after a node of which a gradient is computed from factors.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "program/program.h"

namespace heddle {

struct LoweringContext;

// One input of a segment.
struct SegmentUse {
  SegmentId segment;
  SegmentInputId input;
  Sharding wanted;
  std::optional<Sharding> gradient;  // as it is given; none where none is needed
};

struct ProducedValue {
  ValueId value;
  Sharding sharding;
};

struct SegmentLayout {
  // Once, first, main; inputs have no Locals yet, outputs are not there.
  IdVector<SegmentId, Segment> segments;
  // What others read of it, factors of gradients, or the loss.
  IdVector<SegmentId, std::vector<ProducedValue>> produced;
  std::map<ValueId, std::vector<SegmentUse>> uses;  // in the order of the segments
};

SegmentLayout SplitIntoSegments(const LoweringContext& context, StageId stage);

}  // namespace heddle
