#include <fmt/format.h>

#include <algorithm>

#include "program/verify_parts.h"

namespace heddle {

bool SameLayout(const Mesh& mesh, const Sharding& a, const Sharding& b) {
  if (a == b) return true;
  if (a.dims.size() != b.dims.size()) return false;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    if (mesh.axes[axis].size > 1 && a.partial[axis] != b.partial[axis]) return false;
  }
  for (int64_t device = 0; device < mesh.size(); ++device) {
    Position position = PositionOf(mesh, device);
    for (size_t d = 0; d < a.dims.size(); ++d) {
      if (a.dims[d] == b.dims[d]) continue;
      if (HeldRanges(mesh, a.dims[d], position) != HeldRanges(mesh, b.dims[d], position))
        return false;
    }
  }
  return true;
}

namespace {

// Axes of one device split nothing and make nothing partial.
AxisMask RealAxes(const Mesh& mesh, AxisMask axes) {
  for (size_t a = 0; a < kMaxAxes; ++a) {
    if (a >= mesh.axes.size() || mesh.axes[a].size == 1) axes &= ~AxisSet(a);
  }
  return axes;
}

// Does a step do along its axes, and only there, what its kind says?
bool KeepsItsWord(const Mesh& mesh, const ReshardStep& step) {
  AxisMask axes = RealAxes(mesh, step.axes);
  AxisMask split = RealAxes(mesh, step.before.split_axes()),
           partial = RealAxes(mesh, step.before.partial_axes());
  AxisMask split_after = RealAxes(mesh, step.after.split_axes());
  AxisMask partial_after = RealAxes(mesh, step.after.partial_axes());
  bool same_split = split == split_after, same_partial = partial == partial_after;
  bool was_partial = (partial & axes) == axes && partial_after == (partial & ~axes);
  bool becomes_split = (split & axes) == 0 && split_after == (split | axes);
  for (size_t a = 0; a < kMaxAxes; ++a) {
    PartialState wanted =
        step.reduction == Reduction::kMax ? PartialState::kMax : PartialState::kSum;
    if (Contains(axes & partial, a)) was_partial = was_partial && step.before.partial[a] == wanted;
  }
  switch (step.kind) {
    case StepKind::kAllReduce:
      return was_partial && same_split;
    case StepKind::kReduceScatter:
      return was_partial && becomes_split;
    case StepKind::kAllGather:
      return same_partial && (split & axes) == axes && split_after == (split & ~axes);
    case StepKind::kAllToAll:
      return same_partial && same_split && (split & axes) == axes;
    case StepKind::kSlice:
      return same_partial && becomes_split && (partial & axes) == 0;
    default:
      return same_split && (partial & axes) == 0 && partial_after == (partial | axes) &&
             (split & axes) == 0;
  }
}

class LayoutCheck {
 public:
  LayoutCheck(const Program& program, Findings& findings)
      : program_(program), findings_(findings) {}

  void Run() {
    for (StageId s : program_.stages.ids()) {
      const StageProgram& stage = program_.stages[s];
      for (LocalId l : stage.locals.ids()) CheckLocal(s, l);
      for (ParameterGroupId g : stage.groups.ids()) CheckGroup(s, g);
    }
    for (TransferId t : program_.transfers.ids()) CheckTransfer(t);
    for (TiedGroupId t : program_.tied.ids()) CheckTied(t);
  }

 private:
  std::string NameOf(const Local& local) const {
    return (local.gradient ? "grad " : "") + program_.model.graph.value(local.value).name;
  }

  void CheckLocal(StageId s, LocalId l) {
    const StageProgram& stage = program_.stages[s];
    const Local& local = stage.locals[l];
    auto wrong = [&](const std::string& why) {
      findings_.Add(fmt::format("stage {}, Local {} ({}): {}", s, l, NameOf(local), why));
    };
    auto alike = [&](LocalId other) {
      const Local& from = stage.locals[other];
      if (from.value != local.value || from.gradient != local.gradient)
        wrong("made from another value");
      if (!SameLayout(stage.mesh, from.sharding, local.sharding)) {
        wrong(fmt::format("a sum in {} has a term in {}", ToString(stage.mesh, local.sharding),
                          ToString(stage.mesh, from.sharding)));
      }
    };
    if (local.Is<FromReshard>()) CheckStep(stage, local, wrong);
    if (local.Is<FromSum>()) {
      for (LocalId term : local.As<FromSum>().terms) alike(term);
    }
    if (local.Is<FromMicrobatchSum>()) alike(local.As<FromMicrobatchSum>().local);
    if (local.Is<FromParameter>()) {
      const FromParameter& from = local.As<FromParameter>();
      const ParameterSlot& slot = stage.groups[from.group].slots[from.slot];
      if (slot.parameter != local.value) wrong("its slot is of another parameter");
      if (!SameLayout(stage.mesh, slot.sharding, local.sharding))
        wrong("it is stored in another sharding");
    }
  }

  template <class Wrong>
  void CheckStep(const StageProgram& stage, const Local& local, const Wrong& wrong) {
    const ReshardStep& step = stage.steps[local.As<FromReshard>().step];
    const Local& from = stage.locals[local.As<FromReshard>().local];
    if (from.value != local.value || from.gradient != local.gradient)
      return wrong("made from another value");
    if (from.once != local.once) wrong("only one end of its step depends on the micro-batch");
    if (!SameLayout(stage.mesh, step.before, from.sharding)) {
      wrong(fmt::format("its step starts from {}, its source is in {}",
                        ToString(stage.mesh, step.before), ToString(stage.mesh, from.sharding)));
    }
    if (!SameLayout(stage.mesh, step.after, local.sharding)) {
      wrong(fmt::format("its step ends in {}, it is in {}", ToString(stage.mesh, step.after),
                        ToString(stage.mesh, local.sharding)));
    }
    if (!KeepsItsWord(stage.mesh, step)) {
      wrong(fmt::format("no {} over these axes leads from {} to {}", Name(step.kind),
                        ToString(stage.mesh, step.before), ToString(stage.mesh, step.after)));
    }
  }

  void CheckGroup(StageId s, ParameterGroupId g) {
    const StageProgram& stage = program_.stages[s];
    const ParameterGroup& group = stage.groups[g];
    auto wrong = [&](std::string_view why) {
      findings_.Add(fmt::format("stage {}, group {}: {}", s, g, why));
    };
    for (const ParameterSlot& slot : group.slots) {
      if (slot.sharding.partial_axes() != 0) wrong("a parameter is stored as a partial sum");
      if ((slot.sharding.split_axes() & group.reduce_axes) != 0) {
        wrong("gradients are reduced along an axis that splits a parameter");
      }
    }
    if ((group.zero_axes & ~group.reduce_axes) != 0)
      wrong("state is split along an axis that is not reduced");
    if (SplitsState(group.zero) != (group.zero_axes != 0))
      wrong("its ZeRO level and axes do not agree");
    if (group.server >= 0 && (SplitsState(group.zero) || group.tied.valid() || !group.trained))
      wrong("it has a server, and its state is split, tied or not trained");
    if (group.offloaded && !group.trained) wrong("it is offloaded and not trained");
    if (group.tied.valid() && group.slots.size() != 1)
      wrong("a tied parameter is not alone in its group");
  }

  void CheckTransfer(TransferId t) {
    const StageTransfer& transfer = program_.transfers[t];
    const StageProgram& from_stage = program_.stages[transfer.from_stage];
    const StageProgram& to_stage = program_.stages[transfer.to_stage];
    const Local& from = from_stage.locals[transfer.from_local];
    const Local& to = to_stage.locals[transfer.to_local];
    auto wrong = [&](std::string_view why) {
      findings_.Add(fmt::format("transfer {} ({}): {}", t, NameOf(from), why));
    };
    if (from.value != to.value || from.gradient != to.gradient || from.dtype != to.dtype) {
      wrong("its ends are of different values");
    }
    if (RealAxes(from_stage.mesh, from.sharding.partial_axes()) != 0)
      wrong("a partial value is sent");
    if (RealAxes(to_stage.mesh, to.sharding.partial_axes()) != 0)
      wrong("it is received as a partial value");
    if (GlobalShape(from.sharding) != GlobalShape(to.sharding)) wrong("its ends differ in shape");
    if (to.source != Source(FromTransfer{t})) {
      wrong("its receiver does not come from it");
    }
  }

  // Member i of every holder's mesh meets the members i of the others: they must hold the same.
  void CheckTied(TiedGroupId t) {
    const auto& [first_stage, first_group] = program_.tied[t].holders.front();
    const StageProgram& first = program_.stages[first_stage];
    const ParameterGroup& wanted = first.groups[first_group];
    for (const auto& [s, g] : program_.tied[t].holders) {
      const StageProgram& stage = program_.stages[s];
      const ParameterGroup& group = stage.groups[g];
      bool same_shape = stage.mesh.axes.size() == first.mesh.axes.size();
      for (size_t a = 0; same_shape && a < stage.mesh.axes.size(); ++a) {
        same_shape = stage.mesh.axes[a].size == first.mesh.axes[a].size;
      }
      const ParameterSlot &slot = group.slots.front(), &other = wanted.slots.front();
      bool alike = same_shape && group.zero_axes == wanted.zero_axes &&
                   slot.parameter == other.parameter &&
                   SameLayout(stage.mesh, slot.sharding, other.sharding);
      if (!alike) {
        findings_.Add(fmt::format("tied group {}: stage {} holds it otherwise than stage {}", t, s,
                                  first_stage));
      }
    }
  }

  const Program& program_;
  Findings& findings_;
};

}  // namespace

void CheckLayouts(const Program& program, Findings& findings) {
  LayoutCheck(program, findings).Run();
}

}  // namespace heddle
