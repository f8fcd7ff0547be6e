#include <fmt/format.h>

#include <set>
#include <tuple>

#include "program/verify_parts.h"

namespace heddle {
namespace {

template <class List>
bool In(int index, const List& list) {
  return index >= 0 && static_cast<size_t>(index) < list.size();
}

class IndexCheck {
 public:
  IndexCheck(const Program& program, Findings& findings) : program_(program), findings_(findings) {}

  void Run() {
    if (program_.micro_rules.size() != program_.model.graph.nodes.size()) {
      findings_.Add("there is not one rule per node");
    }
    if (program_.microbatches < 1) findings_.Add("there is no micro-batch");
    for (size_t s = 0; s < program_.stages.size(); ++s) CheckStage(s);
    for (size_t t = 0; t < program_.transfers.size(); ++t) CheckTransfer(t);
    for (size_t t = 0; t < program_.tied.size(); ++t) CheckTied(t);
    CheckRuns();
    if (!findings_.empty()) return;
    for (const DeviceProgram& run : program_.runs) {
      CheckBuffers(run);
      for (size_t i = 0; i < run.instructions.size(); ++i) CheckInstruction(run, i);
    }
  }

 private:
  void CheckStage(size_t s) {
    const StageProgram& stage = program_.stages[s];
    auto wrong = [&](std::string_view what, size_t index, std::string_view why) {
      findings_.Add(fmt::format("stage {}, {} {}: {}", s, what, index, why));
    };
    for (size_t l = 0; l < stage.locals.size(); ++l) {
      if (!IsSound(stage, stage.locals[l]))
        wrong("Local", l, "its value or source is out of range");
    }
    for (size_t g = 0; g < stage.segments.size(); ++g) {
      if (!IsSound(s, stage.segments[g])) wrong("segment", g, "a node or Local is out of range");
    }
    for (size_t g = 0; g < stage.groups.size(); ++g) {
      const ParameterGroup& group = stage.groups[g];
      bool known = group.tied == -1 || In(group.tied, program_.tied);
      known = known && group.server < GroupSize(stage.mesh, group.reduce_axes);
      for (const ParameterSlot& slot : group.slots) {
        known = known && In(slot.parameter.value, program_.model.graph.values);
      }
      if (!known || group.slots.empty())
        wrong("group", g, "a parameter, its tied group or its server is out of range");
    }
    for (size_t f = 0; f < stage.factor_gradients.size(); ++f) {
      if (!IsSound(stage, stage.factor_gradients[f]))
        wrong("factor gradient", f, "a node, Local or segment is out of range");
    }
    for (int gradient : stage.parameter_gradients) {
      if (!In(gradient, stage.locals))
        findings_.Add(fmt::format("stage {}: there is no Local {}", s, gradient));
    }
    if (stage.loss != -1 && !In(stage.loss, stage.locals)) {
      findings_.Add(fmt::format("stage {}: there is no Local {} for the loss", s, stage.loss));
    }
  }

  bool IsSound(const StageProgram& stage, const Local& local) const {
    if (!In(local.value.value, program_.model.graph.values)) return false;
    const Source& source = local.source;
    for (int term : source.terms) {
      if (!In(term, stage.locals)) return false;
    }
    switch (source.kind) {
      case SourceKind::kParameter:
        return In(source.from, stage.groups) &&
               In(source.step, stage.groups[static_cast<size_t>(source.from)].slots);
      case SourceKind::kSegment:
      case SourceKind::kInputGradient:
      case SourceKind::kAccumulated:
        return In(source.from, stage.segments);
      case SourceKind::kReshard:
        return In(source.from, stage.locals) && In(source.step, stage.steps);
      case SourceKind::kMicrobatchSum:
        return In(source.from, stage.locals);
      case SourceKind::kRecv:
        return In(source.from, program_.transfers);
      case SourceKind::kSum:
        return !source.terms.empty();
      default:
        return true;
    }
  }

  bool IsSound(const StageProgram& stage, const FactorGradient& gradient) const {
    if (!In(gradient.node.value, program_.model.graph.nodes)) return false;
    if (!In(gradient.node.value, stage.strategies)) return false;
    if (gradient.operand >= program_.model.graph.node(gradient.node).operands.size()) return false;
    for (int factor : gradient.factors) {
      if (!In(factor, stage.locals)) return false;
    }
    return In(gradient.segment, stage.segments) && In(gradient.parameter, stage.locals) &&
           stage.locals[static_cast<size_t>(gradient.parameter)].source.kind ==
               SourceKind::kParameter;
  }

  bool IsSound(size_t s, const Segment& segment) const {
    const StageProgram& stage = program_.stages[s];
    if (segment.operands.size() != segment.nodes.size()) return false;
    for (size_t n = 0; n < segment.nodes.size(); ++n) {
      if (!In(segment.nodes[n].value, program_.model.graph.nodes)) return false;
      const Node& node = program_.model.graph.node(segment.nodes[n]);
      if (segment.operands[n].size() != node.operands.size()) return false;
      if (!In(segment.nodes[n].value, stage.strategies)) return false;
      if (stage.strategies[segment.nodes[n].index()].size() != stage.mesh.axes.size()) return false;
      for (const OperandRef& ref : segment.operands[n]) {
        if (ref.input != -1 && !In(ref.input, segment.inputs)) return false;
      }
    }
    auto known = [&](const auto& end) {
      return In(end.local, stage.locals) && (end.gradient == -1 || In(end.gradient, stage.locals));
    };
    for (const SegmentInput& input : segment.inputs) {
      if (!known(input)) return false;
    }
    for (const SegmentOutput& output : segment.outputs) {
      if (!known(output)) return false;
    }
    return true;
  }

  void CheckTransfer(size_t t) {
    const StageTransfer& at = program_.transfers[t];
    bool known = In(at.from_stage, program_.stages) && In(at.to_stage, program_.stages);
    known = known &&
            In(at.from_local, program_.stages[static_cast<size_t>(at.from_stage)].locals) &&
            In(at.to_local, program_.stages[static_cast<size_t>(at.to_stage)].locals);
    if (!known) findings_.Add(fmt::format("transfer {}: a stage or Local is out of range", t));
  }

  void CheckTied(size_t t) {
    std::set<int> stages;
    for (const auto& [s, g] : program_.tied[t].holders) {
      bool known = In(s, program_.stages) && In(g, program_.stages[static_cast<size_t>(s)].groups);
      if (!known || !stages.insert(s).second) {
        findings_.Add(
            fmt::format("tied group {}: a stage or group is out of range, or there twice", t));
      } else if (program_.stages[static_cast<size_t>(s)].groups[static_cast<size_t>(g)].tied !=
                 static_cast<int>(t)) {
        findings_.Add(fmt::format("tied group {}: group {} of stage {} is not of it", t, g, s));
      }
    }
    if (stages.empty()) findings_.Add(fmt::format("tied group {} is empty", t));
  }

  void CheckRuns() {
    std::vector<int64_t> held(program_.stages.size(), 0), all;
    for (const DeviceProgram& run : program_.runs) {
      for (int s : run.stages) {
        if (!In(s, program_.stages)) {
          findings_.Add(fmt::format("a run has stage {}, which does not exist", s));
          continue;
        }
        const Mesh& mesh = program_.stages[static_cast<size_t>(s)].mesh;
        for (int64_t device : run.devices) {
          if (IndexIn(mesh, device) >= 0) {
            ++held[static_cast<size_t>(s)];
          } else {
            findings_.Add(fmt::format("device {} runs stage {}, which is not on it", device, s));
          }
        }
      }
      if (run.devices.empty()) findings_.Add("a run has no devices");
      all.insert(all.end(), run.devices.begin(), run.devices.end());
    }
    for (size_t s = 0; s < held.size(); ++s) {
      int64_t size = program_.stages[s].mesh.size();
      if (held[s] != size) {
        findings_.Add(fmt::format("stage {} is run by {} devices, must be {}", s, held[s], size));
      }
    }
    std::sort(all.begin(), all.end());
    for (size_t d = 0; d < all.size(); ++d) {
      if (all[d] == static_cast<int64_t>(d)) continue;
      findings_.Add(fmt::format("device {} has {}", d,
                                all[d] < static_cast<int64_t>(d) ? "two runs" : "no run"));
      return;
    }
  }

  static bool Has(const DeviceProgram& run, int stage) {
    if (run.stages.empty()) return stage == run.home();
    for (int s : run.stages) {
      if (s == stage) return true;
    }
    return false;
  }

  bool IsMicrobatch(int microbatch) const {
    return microbatch >= -1 && microbatch < program_.microbatches;
  }

  void CheckBuffers(const DeviceProgram& run) {
    std::set<std::tuple<BufferKind, int, int, int, int>> seen;
    for (size_t b = 0; b < run.buffers.size(); ++b) {
      const Buffer& at = run.buffers[b];
      bool known = Has(run, at.stage) && IsMicrobatch(at.microbatch);
      if (known) {
        const StageProgram& stage = program_.stages[static_cast<size_t>(at.stage)];
        if (at.kind == BufferKind::kLocal) known = In(at.index, stage.locals);
        if (at.kind == BufferKind::kSaved) known = In(at.index, stage.segments);
        bool grouped = at.kind != BufferKind::kLocal && at.kind != BufferKind::kSaved &&
                       at.kind != BufferKind::kReport;
        if (grouped) known = In(at.index, stage.groups);
      }
      if (!known)
        findings_.Add(fmt::format("device {}, buffer {}: out of range", run.devices.front(), b));
      if (!seen.insert({at.kind, at.stage, at.index, at.microbatch, at.version}).second) {
        findings_.Add(fmt::format("device {}, buffer {}: there twice", run.devices.front(), b));
      }
    }
    for (BufferId id : run.persistent) {
      if (!In(id.value, run.buffers))
        findings_.Add(fmt::format("there is no persistent buffer {}", id.value));
    }
  }

  void CheckInstruction(const DeviceProgram& run, size_t i) {
    const Instruction& at = run.instructions[i];
    auto wrong = [&](std::string_view what) {
      findings_.Add(fmt::format("device {}, instruction {} ({}): {}", run.devices.front(), i,
                                kOpcodeNames[static_cast<size_t>(at.op)], what));
    };
    if (!Has(run, at.stage)) return wrong(fmt::format("stage {} is not of this run", at.stage));
    if (!IsMicrobatch(at.microbatch))
      wrong(fmt::format("there is no micro-batch {}", at.microbatch));
    if (!IndexIsKnown(at)) wrong(fmt::format("its index {} is out of range", at.index));
    auto known = [&](const BufferIds& ids, bool gaps) {
      for (BufferId id : ids) {
        bool gap = gaps && !id.valid();
        if (!gap && !In(id.value, run.buffers))
          wrong(fmt::format("there is no buffer {}", id.value));
      }
    };
    known(at.reads, at.op == Opcode::kRun && at.half != Half::kF);
    known(at.writes, false);
    known(at.adds, false);
    known(at.frees, false);
  }

  bool IndexIsKnown(const Instruction& at) const {
    const StageProgram& stage = program_.stages[static_cast<size_t>(at.stage)];
    switch (at.op) {
      case Opcode::kRun:
        return In(at.index, stage.segments);
      case Opcode::kReshard:
        return In(at.index, stage.locals) &&
               stage.locals[static_cast<size_t>(at.index)].source.kind == SourceKind::kReshard;
      case Opcode::kLoad:
      case Opcode::kSum:
      case Opcode::kAddGradient:
        return In(at.index, stage.locals);
      case Opcode::kFactorGradient:
        return In(at.index, stage.factor_gradients);
      case Opcode::kSend:
      case Opcode::kRecv: {
        if (!In(at.index, program_.transfers)) return false;
        const StageTransfer& transfer = program_.transfers[static_cast<size_t>(at.index)];
        return at.stage == (at.op == Opcode::kSend ? transfer.from_stage : transfer.to_stage);
      }
      case Opcode::kSyncTied:
        if (!In(at.index, program_.tied)) return false;
        for (const auto& [s, g] : program_.tied[static_cast<size_t>(at.index)].holders) {
          if (s == at.stage) return true;
        }
        return false;
      case Opcode::kReport:
        return true;
      default:
        return In(at.index, stage.groups);
    }
  }

  const Program& program_;
  Findings& findings_;
};

}  // namespace

void CheckIndices(const Program& program, Findings& findings) {
  IndexCheck(program, findings).Run();
}

}  // namespace heddle
