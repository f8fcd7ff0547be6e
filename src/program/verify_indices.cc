#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <variant>

#include "base/integers.h"
#include "program/opcode_parts.h"
#include "program/verify_parts.h"

namespace heddle {
namespace {

template <class Id, class T>
bool In(Id id, const IdVector<Id, T>& list) {
  return list.Has(id);
}
// Nodes and values of the graph.
template <class Tag, class T>
bool In(StrongId<Tag> id, const std::vector<T>& list) {
  return id.valid() && id.index() < list.size();
}
// What may be missing.
template <class Id, class T>
bool InOrNone(Id id, const IdVector<Id, T>& list) {
  return !id.valid() || list.Has(id);
}

template <class... Kinds>
struct Overloaded : Kinds... {
  using Kinds::operator()...;
};
template <class... Kinds>
Overloaded(Kinds...) -> Overloaded<Kinds...>;

class IndexCheck {
 public:
  IndexCheck(const Program& program, Findings& findings) : program_(program), findings_(findings) {}

  void Run() {
    if (program_.micro_rules.size() != program_.model.graph.nodes.size()) {
      findings_.Add("there is not one rule per node");
    }
    if (program_.microbatches < 1) findings_.Add("there is no micro-batch");
    for (StageId s : program_.stages.ids()) CheckStage(s);
    for (TransferId t : program_.transfers.ids()) CheckTransfer(t);
    for (TiedGroupId t : program_.tied.ids()) CheckTied(t);
    CheckRuns();
    if (!findings_.empty()) return;
    for (const DeviceProgram& run : program_.runs) {
      CheckBuffers(run);
      for (size_t i = 0; i < run.instructions.size(); ++i) CheckInstruction(run, i);
    }
  }

 private:
  void CheckStage(StageId s) {
    const StageProgram& stage = program_.stages[s];
    auto wrong = [&](std::string_view what, auto id, std::string_view why) {
      findings_.Add(fmt::format("stage {}, {} {}: {}", s, what, id, why));
    };
    for (LocalId l : stage.locals.ids()) {
      if (!IsSound(stage, stage.locals[l]))
        wrong("Local", l, "its value or source is out of range");
    }
    for (SegmentId g : stage.segments.ids()) {
      if (!IsSound(stage, stage.segments[g]))
        wrong("segment", g, "a node or Local is out of range");
    }
    for (ParameterGroupId g : stage.groups.ids()) {
      if (!IsSound(stage, stage.groups[g]))
        wrong("group", g, "a parameter, its tied group or its server is out of range");
    }
    for (FactorGradientId f : stage.factor_gradients.ids()) {
      if (!IsSound(stage, stage.factor_gradients[f]))
        wrong("factor gradient", f, "a node, Local or segment is out of range");
    }
    for (LocalId gradient : stage.parameter_gradients) {
      if (!In(gradient, stage.locals))
        findings_.Add(fmt::format("stage {}: there is no Local {}", s, gradient));
    }
    if (!InOrNone(stage.loss, stage.locals))
      findings_.Add(fmt::format("stage {}: there is no Local {} for the loss", s, stage.loss));
  }

  bool IsSound(const StageProgram& stage, const ParameterGroup& group) const {
    return !group.slots.empty() && InOrNone(group.tied, program_.tied) &&
           group.server < GroupSize(stage.mesh, group.reduce_axes) &&
           std::all_of(group.slots.begin(), group.slots.end(), [&](const ParameterSlot& slot) {
             return In(slot.parameter, program_.model.graph.values);
           });
  }

  bool IsSound(const StageProgram& stage, const Local& local) const {
    if (!In(local.value, program_.model.graph.values)) return false;
    return std::visit(
        Overloaded{[](const FromConstant&) { return true; }, [](const FromLoad&) { return true; },
                   [](const FromSeed&) { return true; },
                   [&](const FromParameter& from) {
                     return In(from.group, stage.groups) &&
                            from.slot < stage.groups[from.group].slots.size();
                   },
                   [&](const FromSegment& from) { return In(from.segment, stage.segments); },
                   [&](const FromInputGradient& from) { return In(from.segment, stage.segments); },
                   [&](const FromAccumulation& from) { return In(from.first, stage.segments); },
                   [&](const FromReshard& from) {
                     return In(from.local, stage.locals) && In(from.step, stage.steps);
                   },
                   [&](const FromMicrobatchSum& from) { return In(from.local, stage.locals); },
                   [&](const FromTransfer& from) { return In(from.transfer, program_.transfers); },
                   [&](const FromSum& from) {
                     return !from.terms.empty() &&
                            std::all_of(from.terms.begin(), from.terms.end(),
                                        [&](LocalId term) { return In(term, stage.locals); });
                   }},
        local.source);
  }

  bool IsSound(const StageProgram& stage, const FactorGradient& gradient) const {
    if (!In(gradient.node, program_.model.graph.nodes)) return false;
    if (!In(gradient.node, stage.strategies)) return false;
    if (gradient.operand >= program_.model.graph.node(gradient.node).operands.size()) return false;
    for (LocalId factor : gradient.factors) {
      if (!In(factor, stage.locals)) return false;
    }
    return In(gradient.segment, stage.segments) && In(gradient.parameter, stage.locals) &&
           stage.locals[gradient.parameter].Is<FromParameter>();
  }

  bool IsSound(const StageProgram& stage, const Segment& segment) const {
    if (segment.operands.size() != segment.nodes.size()) return false;
    for (size_t n = 0; n < segment.nodes.size(); ++n) {
      if (!In(segment.nodes[n], program_.model.graph.nodes)) return false;
      const Node& node = program_.model.graph.node(segment.nodes[n]);
      if (segment.operands[n].size() != node.operands.size()) return false;
      if (!In(segment.nodes[n], stage.strategies)) return false;
      if (stage.strategies[segment.nodes[n].index()].size() != stage.mesh.axes.size()) return false;
      for (const OperandRef& ref : segment.operands[n]) {
        if (!InOrNone(ref.input, segment.inputs)) return false;
      }
    }
    auto known = [&](const auto& end) {
      return In(end.local, stage.locals) && InOrNone(end.gradient, stage.locals);
    };
    return std::all_of(segment.inputs.begin(), segment.inputs.end(), known) &&
           std::all_of(segment.outputs.begin(), segment.outputs.end(), known);
  }

  void CheckTransfer(TransferId t) {
    const StageTransfer& at = program_.transfers[t];
    bool known = In(at.from_stage, program_.stages) && In(at.to_stage, program_.stages) &&
                 In(at.from_local, program_.stages[at.from_stage].locals) &&
                 In(at.to_local, program_.stages[at.to_stage].locals);
    if (!known) findings_.Add(fmt::format("transfer {}: a stage or Local is out of range", t));
  }

  void CheckTied(TiedGroupId t) {
    std::set<StageId> stages;
    for (const auto& [s, g] : program_.tied[t].holders) {
      bool known = In(s, program_.stages) && In(g, program_.stages[s].groups);
      if (!known || !stages.insert(s).second) {
        findings_.Add(
            fmt::format("tied group {}: a stage or group is out of range, or there twice", t));
      } else if (program_.stages[s].groups[g].tied != t) {
        findings_.Add(fmt::format("tied group {}: group {} of stage {} is not of it", t, g, s));
      }
    }
    if (stages.empty()) findings_.Add(fmt::format("tied group {} is empty", t));
  }

  void CheckRuns() {
    IdVector<StageId, int64_t> held(program_.stages.size(), 0);
    std::vector<int64_t> all;
    for (const DeviceProgram& run : program_.runs) {
      for (StageId s : run.stages) {
        if (!In(s, program_.stages)) {
          findings_.Add(fmt::format("a run has stage {}, which does not exist", s));
          continue;
        }
        const Mesh& mesh = program_.stages[s].mesh;
        for (int64_t device : run.devices) {
          if (IndexIn(mesh, device) >= 0) {
            ++held[s];
          } else {
            findings_.Add(fmt::format("device {} runs stage {}, which is not on it", device, s));
          }
        }
      }
      if (run.devices.empty()) findings_.Add("a run has no devices");
      all.insert(all.end(), run.devices.begin(), run.devices.end());
    }
    for (StageId s : held.ids()) {
      int64_t size = program_.stages[s].mesh.size();
      if (held[s] != size) {
        findings_.Add(fmt::format("stage {} is run by {} devices, must be {}", s, held[s], size));
      }
    }
    std::sort(all.begin(), all.end());
    for (int64_t d = 0; d < std::ssize(all); ++d) {
      int64_t device = all[ToSize(d)];
      if (device == d) continue;
      findings_.Add(fmt::format("device {} has {}", d, device < d ? "two runs" : "no run"));
      return;
    }
  }

  static bool Has(const DeviceProgram& run, StageId stage) {
    if (run.stages.empty()) return stage == run.home();
    for (StageId s : run.stages) {
      if (s == stage) return true;
    }
    return false;
  }

  bool IsMicrobatch(int microbatch) const {
    return microbatch >= -1 && microbatch < program_.microbatches;
  }

  // Is the target of a buffer of a stage of the kind that its kind asks for, and there?
  static bool IsKnown(const StageProgram& stage, const Buffer& at) {
    switch (at.kind) {
      case BufferKind::kLocal:
        return Holds(at.target, stage.locals);
      case BufferKind::kSaved:
        return Holds(at.target, stage.segments);
      case BufferKind::kReport:
        return true;
      default:
        return Holds(at.target, stage.groups);
    }
  }

  template <class Target, class Id, class T>
  static bool Holds(const Target& target, const IdVector<Id, T>& list) {
    const Id* id = std::get_if<Id>(&target);
    return id != nullptr && list.Has(*id);
  }

  void CheckBuffers(const DeviceProgram& run) {
    std::set<std::tuple<BufferKind, StageId, BufferTarget, int, int>> seen;
    for (BufferId b : run.buffers.ids()) {
      const Buffer& at = run.buffers[b];
      bool known = Has(run, at.stage) && IsMicrobatch(at.microbatch) &&
                   IsKnown(program_.stages[at.stage], at);
      if (!known)
        findings_.Add(fmt::format("device {}, buffer {}: out of range", run.devices.front(), b));
      if (!seen.insert({at.kind, at.stage, at.target, at.microbatch, at.version}).second) {
        findings_.Add(fmt::format("device {}, buffer {}: there twice", run.devices.front(), b));
      }
    }
    for (BufferId id : run.persistent) {
      if (!In(id, run.buffers)) findings_.Add(fmt::format("there is no persistent buffer {}", id));
    }
  }

  void CheckInstruction(const DeviceProgram& run, size_t i) {
    const Instruction& at = run.instructions[i];
    auto wrong = [&](std::string_view what) {
      findings_.Add(fmt::format("device {}, instruction {} ({}): {}", run.devices.front(), i,
                                NameOf(at.op), what));
    };
    if (!Has(run, at.stage)) return wrong(fmt::format("stage {} is not of this run", at.stage));
    if (!IsMicrobatch(at.microbatch))
      wrong(fmt::format("there is no micro-batch {}", at.microbatch));
    if (!TargetIsKnown(at)) wrong(fmt::format("its index {} is out of range", NumberOf(at.target)));
    auto known = [&](const BufferIds& ids, bool gaps) {
      for (BufferId id : ids) {
        bool gap = gaps && !id.valid();
        if (!gap && !In(id, run.buffers)) wrong(fmt::format("there is no buffer {}", id));
      }
    };
    known(at.reads, at.op == Opcode::kRun && at.half != Half::kF);
    known(at.writes, false);
    known(at.adds, false);
    known(at.frees, false);
  }

  bool TargetIsKnown(const Instruction& at) const {
    const OpcodeDef& def = DefOf(at.op);
    return IsThere(def.target, at) && (def.fits == nullptr || def.fits(program_, at));
  }

  bool IsThere(TargetKind kind, const Instruction& at) const {
    const StageProgram& stage = program_.stages[at.stage];
    switch (kind) {
      case TargetKind::kNone:
        return true;
      case TargetKind::kSegment:
        return Holds(at.target, stage.segments);
      case TargetKind::kLocal:
        return Holds(at.target, stage.locals);
      case TargetKind::kTransfer:
        return Holds(at.target, program_.transfers);
      case TargetKind::kGroup:
        return Holds(at.target, stage.groups);
      case TargetKind::kTied:
        return Holds(at.target, program_.tied);
      case TargetKind::kFactorGradient:
        return Holds(at.target, stage.factor_gradients);
    }
    return false;
  }

  const Program& program_;
  Findings& findings_;
};

}  // namespace

bool IsOfAReshard(const Program& program, const Instruction& instruction) {
  return program.stages[instruction.stage].locals[instruction.local()].Is<FromReshard>();
}

bool IsSentByItsStage(const Program& program, const Instruction& instruction) {
  return program.transfers[instruction.transfer()].from_stage == instruction.stage;
}

bool IsReceivedByItsStage(const Program& program, const Instruction& instruction) {
  return program.transfers[instruction.transfer()].to_stage == instruction.stage;
}

bool IsHeldByItsStage(const Program& program, const Instruction& instruction) {
  const auto& holders = program.tied[instruction.tied()].holders;
  return std::any_of(holders.begin(), holders.end(),
                     [&](const auto& holder) { return holder.first == instruction.stage; });
}

void CheckIndices(const Program& program, Findings& findings) {
  IndexCheck(program, findings).Run();
}

}  // namespace heddle
