// How often, and in which order, segments run and groups are reduced and updated.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/integers.h"
#include "program/stage_builder.h"
#include "program/verify_parts.h"

namespace heddle {
namespace {

std::string Devices(const DeviceProgram& run) {
  return fmt::format("devices {}", DevicesText(run.devices, "-"));
}

// The positions of the halves of one segment at one micro-batch in the list.
struct Places {
  std::array<int, 5> count = {};  // by Half, then of recomputation
  std::array<int, 5> at = {-1, -1, -1, -1, -1};
};
constexpr size_t kF = 0, kB = 1, kW = 2, kBW = 3, kAgain = 4;

class OrderCheck {
 public:
  OrderCheck(const Program& program, const DeviceProgram& run, Findings& findings)
      : program_(program), run_(run), findings_(findings) {}

  void Run() {
    Collect();
    for (StageId s : run_.stages) {
      const StageProgram& stage = program_.stages[s];
      std::set<UnitId> units = UnitsWithBackward(stage);
      for (SegmentId g : stage.segments.ids()) {
        const Segment& segment = stage.segments[g];
        bool again = segment.unit.valid() && units.count(segment.unit) != 0;
        if (segment.phase == Phase::kOnce) {
          CheckPlaces(s, g, -1, segment, again);
        } else {
          for (int m = 0; m < program_.microbatches; ++m) CheckPlaces(s, g, m, segment, again);
        }
      }
    }
    for (const auto& [key, places] : places_) {
      auto [s, g, m] = key;
      findings_.Add(
          fmt::format("{}: segment {} of stage {} runs at micro-batch {}, where it must not",
                      Devices(run_), g, s, m));
    }
  }

 private:
  static std::set<UnitId> UnitsWithBackward(const StageProgram& stage) {
    std::set<UnitId> units;
    for (const Segment& segment : stage.segments) {
      if (segment.has_backward) units.insert(segment.unit);
    }
    return units;
  }

  void Collect() {
    for (int i = 0; i < std::ssize(run_.instructions); ++i) {
      const Instruction& at = run_.instructions[ToSize(i)];
      if (at.op != Opcode::kRun) continue;
      Places& places = places_[{at.stage, at.segment(), at.microbatch}];
      size_t which = at.recompute ? kAgain : static_cast<size_t>(at.half);
      ++places.count[which];
      places.at[which] = i;
    }
  }

  void CheckPlaces(StageId s, SegmentId g, int m, const Segment& segment, bool again) {
    auto found = places_.extract({s, g, m});
    Places places = found ? found.mapped() : Places{};
    auto wrong = [&](const std::string& why) {
      std::string at = m < 0 ? "" : fmt::format(", micro-batch {}", m);
      findings_.Add(fmt::format("{}: segment {} of stage {}{}: {}", Devices(run_), g, s, at, why));
    };
    auto times = [&](std::string_view what, size_t which, int wanted) {
      if (places.count[which] != wanted)
        wrong(fmt::format("{} runs {} times, must be {}", what, places.count[which], wanted));
    };
    bool apart = places.count[kB] + places.count[kW] > 0;
    bool late = std::any_of(segment.inputs.begin(), segment.inputs.end(),
                            [](const SegmentInput& i) { return i.late; });
    bool back = segment.has_backward && segment.phase != Phase::kFirst;
    times("F", kF, 1);
    times("recomputation", kAgain, again ? 1 : 0);
    times("BW", kBW, back && !apart ? 1 : 0);
    times("B", kB, back && apart ? 1 : 0);
    times("W", kW, back && apart && late ? 1 : 0);
    int last = -1;
    for (size_t which : {kF, kAgain, kB, kBW, kW}) {
      if (places.at[which] < 0) continue;
      if (places.at[which] < last) wrong("its halves are out of order");
      last = places.at[which];
    }
  }

  const Program& program_;
  const DeviceProgram& run_;
  Findings& findings_;
  std::map<std::tuple<StageId, SegmentId, int>, Places> places_;
};

class TrainingCheck {
 public:
  TrainingCheck(const Program& program, const DeviceProgram& run, Findings& findings)
      : program_(program), run_(run), findings_(findings) {}

  void Run() {
    Collect();
    if (reports_ != 1) Wrong(fmt::format("there are {} reports, must be 1", reports_));
    for (StageId s : run_.stages) {
      CheckParameters(s);
      const StageProgram& stage = program_.stages[s];
      for (ParameterGroupId g : stage.groups.ids()) CheckGroup(s, g, stage.groups[g]);
      for (LocalId gradient : stage.parameter_gradients) CheckParameterGradient(s, gradient);
      for (FactorGradientId f : stage.factor_gradients.ids()) CheckFactorGradient(s, f);
    }
    for (TiedGroupId t : program_.tied.ids()) {
      bool here = false;
      for (const auto& [s, g] : program_.tied[t].holders) {
        here = here || std::find(run_.stages.begin(), run_.stages.end(), s) != run_.stages.end();
      }
      if (syncs_[t] != (here ? 1 : 0)) {
        Wrong(fmt::format("tied group {} is summed {} times, must be {}", t, syncs_[t],
                          here ? 1 : 0));
      }
    }
  }

 private:
  using GroupKey = std::pair<StageId, ParameterGroupId>;

  void Wrong(const std::string& why) { findings_.Add(fmt::format("{}: {}", Devices(run_), why)); }

  void Collect() {
    for (const Instruction& at : run_.instructions) {
      Count(at);
      for (BufferId id : at.adds) {
        const Buffer& buffer = run_.buffers[id];
        if (buffer.kind != BufferKind::kWeightGradients) continue;
        gradients_.insert({buffer.stage, buffer.group(), buffer.microbatch});
      }
    }
  }

  void Count(const Instruction& at) {
    switch (at.op) {
      case Opcode::kReport:
        ++reports_;
        break;
      case Opcode::kSyncTied:
        ++syncs_[at.tied()];
        break;
      case Opcode::kAddGradient:
        ++added_[{at.stage, at.local()}];
        break;
      case Opcode::kFactorGradient:
        ++computed_[{at.stage, at.factor_gradient(), at.microbatch}];
        break;
      case Opcode::kReduceGradients:
        ++reductions_[{at.stage, at.group(), at.microbatch}];
        break;
      default:
        if (std::holds_alternative<ParameterGroupId>(at.target)) CountOfGroup(at);
        break;
    }
  }

  void CountOfGroup(const Instruction& at) {
    GroupKey key{at.stage, at.group()};
    bool updated = updates_.count(key) != 0;
    if (at.op == Opcode::kUpdate) ++updates_[key];
    if (at.op == Opcode::kFetch && !updated && !at.adds.empty()) ++fetches_[key];
    if (at.op == Opcode::kEvict && updated) ++evictions_[key];
    if (at.op == Opcode::kReduceShards) ++shards_[key];
    // Weights of ZeRO 1 and 2 must be whole again at the end.
    if (at.op == Opcode::kGatherWeights && updated) ++gathers_[key];
  }

  void CheckParameters(StageId s) {
    const StageProgram& stage = program_.stages[s];
    std::set<ValueId> trained;
    for (const ParameterGroup& group : stage.groups) {
      for (const ParameterSlot& slot : group.slots) {
        if (group.trained && !trained.insert(slot.parameter).second) {
          Wrong(
              fmt::format("parameter {} is in two groups of stage {}", NameOf(slot.parameter), s));
        }
      }
    }
    for (const Segment& segment : stage.segments) {
      for (NodeId id : segment.nodes) {
        const Node& node = program_.model.graph.node(id);
        for (size_t o = 0; o < node.operands.size(); ++o) {
          bool parameter =
              program_.model.graph.value(node.operands[o]).kind == ValueKind::kParameter;
          if (!parameter || !WantsGradient(program_.model, id, o) ||
              trained.count(node.operands[o]))
            continue;
          Wrong(fmt::format("parameter {} is in no trained group of stage {}",
                            NameOf(node.operands[o]), s));
        }
      }
    }
  }

  std::string NameOf(ValueId id) const { return program_.model.graph.value(id).name; }

  void CheckGroup(StageId s, ParameterGroupId g, const ParameterGroup& group) {
    const StageProgram& stage = program_.stages[s];
    auto times = [&](std::string_view what, int is, int wanted) {
      if (is != wanted)
        Wrong(
            fmt::format("group {} of stage {} is {} {} times, must be {}", g, s, what, is, wanted));
    };
    times("updated", updates_[{s, g}], group.trained ? 1 : 0);
    bool reduced = group.trained && GroupSize(stage.mesh, group.reduce_axes) > 1;
    bool rest = reduced && SplitsState(group.zero) &&
                GroupSize(stage.mesh, group.reduce_axes & ~group.zero_axes) > 1;
    times("reduced after it was scattered", shards_[{s, g}], rest ? 1 : 0);
    times("gathered after its update", gathers_[{s, g}],
          group.trained &&
                  ((SplitsState(group.zero) && !SplitsWeights(group.zero)) || group.server >= 0)
              ? 1
              : 0);
    times("fetched before its update", fetches_[{s, g}], group.offloaded ? 1 : 0);
    times("evicted after its update", evictions_[{s, g}],
          (group.offloaded ? 1 : 0) + (group.offloaded && group.spilled ? 1 : 0));
    bool any = false;
    for (int m = -1; m < program_.microbatches; ++m) {
      bool there = gradients_.count({s, g, m}) != 0;
      any = any || there;
      std::string what = m < 0 ? "reduced" : fmt::format("reduced for micro-batch {}", m);
      times(what, reductions_[{s, g, m}], reduced && there ? 1 : 0);
    }
    if (group.trained && !any)
      Wrong(fmt::format("nothing adds to the gradients of group {} of stage {}", g, s));
  }

  void CheckFactorGradient(StageId s, FactorGradientId f) {
    for (int m = -1; m < program_.microbatches; ++m) {
      int times = computed_[{s, f, m}], wanted = m < 0 ? 0 : 1;
      if (times == wanted) continue;
      Wrong(
          fmt::format("factor gradient {} of stage {}, micro-batch {}, is computed {} times, "
                      "must be {}",
                      f, s, m, times, wanted));
    }
  }

  void CheckParameterGradient(StageId s, LocalId l) {
    const StageProgram& stage = program_.stages[s];
    const Local& local = stage.locals[l];
    if (added_[{s, l}] != 1) {
      Wrong(fmt::format("gradient {} of {} is added {} times, must be 1", l, NameOf(local.value),
                        added_[{s, l}]));
    }
    for (const ParameterGroup& group : stage.groups) {
      for (const ParameterSlot& slot : group.slots) {
        if (slot.parameter != local.value) continue;
        Sharding split = local.sharding;
        split.partial = {};
        bool fits = SameLayout(stage.mesh, split, slot.sharding) &&
                    (local.sharding.partial_axes() & ~group.reduce_axes) == 0;
        if (!fits)
          Wrong(fmt::format("gradient {} of {} does not lie as it is stored", l,
                            NameOf(local.value)));
      }
    }
  }

  const Program& program_;
  const DeviceProgram& run_;
  Findings& findings_;
  int reports_ = 0;
  std::map<TiedGroupId, int> syncs_;
  std::map<GroupKey, int> updates_, shards_, gathers_, fetches_, evictions_;
  std::map<std::pair<StageId, LocalId>, int> added_;
  std::map<std::tuple<StageId, FactorGradientId, int>, int> computed_;  // by micro-batch
  std::map<std::tuple<StageId, ParameterGroupId, int>, int> reductions_;
  std::set<std::tuple<StageId, ParameterGroupId, int>> gradients_;  // that are added to
};

}  // namespace

void CheckOrder(const Program& program, Findings& findings) {
  for (const DeviceProgram& run : program.runs) OrderCheck(program, run, findings).Run();
}

void CheckTraining(const Program& program, Findings& findings) {
  for (const DeviceProgram& run : program.runs) TrainingCheck(program, run, findings).Run();
}

}  // namespace heddle
