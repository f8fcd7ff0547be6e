#include "plan/reshard.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/check.h"
#include "plan/refinement.h"

namespace heddle {
namespace {

// A place an axis may be at: one part of one dimension, in one of its readings. In a concatenation, the same
// part of every term.
struct Slot {
  size_t dim = 0;
  int reading = 0;  // of the dimension: 0 that of `from` (or the common one), 1 that of `to`, kBoth
  std::vector<size_t> parts;  // per term
  bool operator==(const Slot&) const = default;
};

constexpr int kBoth = 2;

constexpr int kRepl = -1, kSum = -2, kMax = -3;

// Per axis: a slot, or one of the above.
using State = std::array<int, kMaxAxes>;

class Space {
 public:
  Space(const Mesh& mesh, const Sharding& from, const Sharding& to) : mesh_(mesh) {
    HEDDLE_CHECK(GlobalShape(from) == GlobalShape(to), "{} becomes {}", ToString(mesh, from),
                 ToString(mesh, to));
    start_ = Partials(from);
    goal_ = Partials(to);
    for (size_t d = 0; d < from.dims.size(); ++d) {
      std::optional<RefinedDim> common = CommonRefinement(mesh, from.dims[d], to.dims[d]);
      readings_.push_back({});
      if (common) {
        readings_.back() = {WithoutAxes(common->from)};
        Place(d, 0, common->from, &start_);
        Place(d, 0, common->to, &goal_);
      } else {
        ShardedDim first = from.dims[d], second = to.dims[d];
        bool shared = ShareOutermost(mesh, &first, &second);
        readings_.back() = {WithoutAxes(first), WithoutAxes(second)};
        Place(d, 0, first, &start_, shared);
        Place(d, 1, second, &goal_, shared);
      }
    }
  }

  const State& start() const { return start_; }
  const State& goal() const { return goal_; }
  int slots() const { return static_cast<int>(slots_.size()); }

  bool IsValid(const State& state) const {
    for (size_t a = 0; a < mesh_.axes.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (state[a] < 0 || state[b] < 0) continue;
        const Slot &one = slots_[static_cast<size_t>(state[a])],
                   &two = slots_[static_cast<size_t>(state[b])];
        bool agree = one.reading == two.reading || one.reading == kBoth || two.reading == kBoth;
        if (one.dim == two.dim && !agree) return false;
      }
    }
    return true;
  }

  // Is this axis the innermost of those at its slot?
  bool IsInnermost(const State& state, size_t axis) const {
    for (size_t a = axis + 1; a < mesh_.axes.size(); ++a) {
      if (state[a] == state[axis]) return false;
    }
    return true;
  }

  Sharding ToSharding(const State& state) const {
    Sharding sharding;
    for (size_t d = 0; d < readings_.size(); ++d) sharding.dims.push_back(readings_[d][0]);
    for (int at : state) {
      if (at < 0) continue;
      const Slot& slot = slots_[static_cast<size_t>(at)];
      if (slot.reading == 1) sharding.dims[slot.dim] = readings_[slot.dim][1];
    }
    for (size_t a = 0; a < mesh_.axes.size(); ++a) {
      if (state[a] == kSum) sharding.partial[a] = PartialState::kSum;
      if (state[a] == kMax) sharding.partial[a] = PartialState::kMax;
      if (state[a] < 0) continue;
      const Slot& slot = slots_[static_cast<size_t>(state[a])];
      ShardedDim& dim = sharding.dims[slot.dim];
      for (size_t t = 0; t < dim.terms.size(); ++t) dim.terms[t][slot.parts[t]].axes |= AxisSet(a);
    }
    return sharding;
  }

 private:
  State Partials(const Sharding& sharding) const {
    State state;
    state.fill(kRepl);
    for (size_t a = 0; a < mesh_.axes.size(); ++a) {
      if (sharding.partial[a] == PartialState::kSum) state[a] = kSum;
      if (sharding.partial[a] == PartialState::kMax) state[a] = kMax;
    }
    return state;
  }

  // `shared`: the outermost part is one of both readings.
  void Place(size_t d, int reading, const ShardedDim& dim, State* state, bool shared = false) {
    for (size_t a = 0; a < mesh_.axes.size(); ++a) {
      Slot slot{d, reading, {}};
      for (const Parts& term : dim.terms) {
        auto splits = [&](const Part& part) { return Contains(part.axes, a); };
        auto found = std::find_if(term.begin(), term.end(), splits);
        if (found != term.end()) slot.parts.push_back(static_cast<size_t>(found - term.begin()));
      }
      if (slot.parts.empty()) continue;
      HEDDLE_CHECK_EQ(slot.parts.size(), dim.terms.size());
      if (shared && slot.parts[0] == 0) slot.reading = kBoth;
      (*state)[a] = FindSlot(slot);
    }
  }

  int FindSlot(const Slot& slot) {
    auto found = std::find(slots_.begin(), slots_.end(), slot);
    if (found == slots_.end()) found = slots_.insert(slots_.end(), slot);
    return static_cast<int>(found - slots_.begin());
  }

  const Mesh& mesh_;
  std::vector<std::vector<ShardedDim>> readings_;  // per dimension, without axes
  std::vector<Slot> slots_;
  State start_, goal_;
};

struct Move {
  StepKind kind;
  AxisMask axes;
  State to;
};

// All steps that are possible from a state.
std::vector<Move> Moves(const Mesh& mesh, const Space& space, const State& state) {
  std::vector<Move> moves;
  AxisMask sums = 0;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (state[a] == kSum) sums |= AxisSet(a);
  }
  for (AxisMask set = sums; set != 0; set = (set - 1) & sums) {
    State to = state;
    for (size_t a = 0; a < mesh.axes.size(); ++a) {
      if (Contains(set, a)) to[a] = kRepl;
    }
    moves.push_back({StepKind::kAllReduce, set, to});
  }
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    State to = state;
    auto add = [&](StepKind kind, int place) {
      to[a] = place;
      if (space.IsValid(to) && (place < 0 || space.IsInnermost(to, a))) {
        moves.push_back({kind, AxisSet(a), to});
      }
    };
    bool at_part = state[a] >= 0;
    if (at_part && !space.IsInnermost(state, a)) continue;
    if (state[a] == kMax) add(StepKind::kAllReduce, kRepl);
    if (at_part) add(StepKind::kAllGather, kRepl);
    if (state[a] == kRepl && space.goal()[a] == kSum) add(StepKind::kMask, kSum);
    StepKind kind = at_part             ? StepKind::kAllToAll
                    : state[a] == kRepl ? StepKind::kSlice
                                        : StepKind::kReduceScatter;
    for (int slot = 0; slot < space.slots(); ++slot) {
      if (slot != state[a]) add(kind, slot);
    }
  }
  return moves;
}

bool IsEnd(const State& state, const State& goal, ReshardEnd end) {
  for (size_t a = 0; a < kMaxAxes; ++a) {
    bool stays = end == ReshardEnd::kPartialStays && goal[a] == kRepl && state[a] == kSum;
    if (state[a] != goal[a] && !stays) return false;
  }
  return true;
}

Reduction ReductionOf(const State& state, AxisMask axes) {
  for (size_t a = 0; a < kMaxAxes; ++a) {
    if (Contains(axes, a) && state[a] == kMax) return Reduction::kMax;
  }
  return Reduction::kSum;
}

// The elements that a device sends in a step, given how many it holds before.
double OnWire(const Mesh& mesh, StepKind kind, AxisMask axes, double held) {
  double ranks = static_cast<double>(GroupSize(mesh, axes));
  switch (kind) {
    case StepKind::kAllReduce:
      return 2 * (ranks - 1) / ranks * held;
    case StepKind::kAllGather:
      return (ranks - 1) * held;
    case StepKind::kReduceScatter:
    case StepKind::kAllToAll:
      return (ranks - 1) / ranks * held;
    default:
      return 0;
  }
}

struct Reached {
  double wire = 0;
  int steps = 0;
  State from;
  Move by;
  bool done = false;
};

bool Before(const Reached& a, const Reached& b) {
  if (a.wire != b.wire) return a.wire < b.wire;
  return a.steps < b.steps;
}

ReshardStep ToStep(const Space& space, const Move& move, const State& from) {
  return {move.kind, move.axes, ReductionOf(from, move.axes), space.ToSharding(from),
          space.ToSharding(move.to)};
}

}  // namespace

std::string_view Name(StepKind kind) {
  switch (kind) {
    case StepKind::kSlice:
      return "slice";
    case StepKind::kMask:
      return "mask";
    default:
      return Name(ToCollective(kind));
  }
}

CollectiveKind ToCollective(StepKind kind) {
  switch (kind) {
    case StepKind::kAllReduce:
      return CollectiveKind::kAllReduce;
    case StepKind::kAllGather:
      return CollectiveKind::kAllGather;
    case StepKind::kReduceScatter:
      return CollectiveKind::kReduceScatter;
    default:
      HEDDLE_CHECK(kind == StepKind::kAllToAll, "a local step is no collective");
      return CollectiveKind::kAllToAll;
  }
}

double WireElements(const Mesh& mesh, const ReshardStep& step) {
  return OnWire(mesh, step.kind, step.axes,
                static_cast<double>(ElementCount(PaddedShape(mesh, step.before))));
}

double WireElements(const Mesh& mesh, const std::vector<ReshardStep>& steps) {
  double wire = 0;
  for (const ReshardStep& step : steps) wire += WireElements(mesh, step);
  return wire;
}

std::vector<ReshardStep> Reshard(const Mesh& mesh, const Sharding& from, const Sharding& to,
                                 ReshardEnd end) {
  if (from == to) return {};
  Space space(mesh, from, to);
  std::map<State, Reached> reached;
  reached[space.start()] = {0, 0, space.start(), {}, false};
  while (true) {
    // The nearest state that is not done; ties break by the order of states.
    const State* nearest = nullptr;
    for (const auto& [state, at] : reached) {
      if (!at.done && (nearest == nullptr || Before(at, reached[*nearest]))) nearest = &state;
    }
    HEDDLE_CHECK(nearest != nullptr, "no way from {} to {}", ToString(mesh, from),
                 ToString(mesh, to));
    State state = *nearest;
    Reached& at = reached[state];
    at.done = true;
    if (IsEnd(state, space.goal(), end)) {
      std::vector<ReshardStep> steps;
      for (State back = state; back != space.start(); back = reached[back].from) {
        steps.push_back(ToStep(space, reached[back].by, reached[back].from));
      }
      std::reverse(steps.begin(), steps.end());
      return steps;
    }
    double wire = at.wire;
    int steps = at.steps + 1;
    double held = static_cast<double>(ElementCount(PaddedShape(mesh, space.ToSharding(state))));
    for (const Move& move : Moves(mesh, space, state)) {
      double moved = OnWire(mesh, move.kind, move.axes, held);
      Reached next{wire + moved, steps, state, move, false};
      auto [found, fresh] = reached.try_emplace(move.to, next);
      if (!fresh && !found->second.done && Before(next, found->second)) found->second = next;
    }
  }
}

}  // namespace heddle
