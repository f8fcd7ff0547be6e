// From one sharding to another: the chain of collectives with the fewest bytes per device, then fewest steps.
//
// Shardings of neighbours may see a dimension in different parts; they meet in the common refinement of the
// two. A state says of each axis where it is: at a part, replicated, or partial. Steps move one axis (an
// all-reduce: any number of them):
//
//   all-reduce       partial -> replicated          2(p-1)/p of what a device holds
//   reduce-scatter   partial -> at a part            (p-1)/p
//   all-gather       at a part -> replicated         (p-1)
//   all-to-all       at a part -> at another         (p-1)/p
//   slice            replicated -> at a part         nothing
//   mask             replicated -> partial sum       nothing: zeros but at the axis' first position
//
// An axis can join or leave a part only as its innermost. A dimension whose two readings have no common
// refinement holds the parts of one of them at a time, but for what both split first by the same axes. The cheapest path
// is found by Dijkstra over the states: a few hundred for the three axes that the search uses at most, since only parts
// that one of the two shardings splits count.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/collective.h"
#include "plan/sharding.h"

namespace heddle {

enum class StepKind : uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSlice, kMask };
std::string_view Name(StepKind kind);
constexpr bool IsLocal(StepKind kind) {
  return kind == StepKind::kSlice || kind == StepKind::kMask;
}
// Not for local steps.
CollectiveKind ToCollective(StepKind kind);

struct ReshardStep {
  StepKind kind = StepKind::kSlice;
  AxisMask axes = 0;
  Reduction reduction = Reduction::kSum;
  Sharding before, after;
  bool operator==(const ReshardStep&) const = default;
};

// Which end states are good enough.
enum class ReshardEnd : uint8_t {
  kExact,  // as `to` says
  kPartialStays,  // split as `to` is; along other axes partial sums may remain (gradients before they are summed)
};

// The steps, none where the shardings are equal already. Both must be of one global shape and in normal form.
// `to` may be partial only where `from` is partial or replicated.
std::vector<ReshardStep> Reshard(const Mesh& mesh, const Sharding& from, const Sharding& to,
                                 ReshardEnd end = ReshardEnd::kExact);

// Elements that cross the wire per device of a step (by the formulas above), at the device that holds most.
double WireElements(const Mesh& mesh, const ReshardStep& step);
double WireElements(const Mesh& mesh, const std::vector<ReshardStep>& steps);

}  // namespace heddle
