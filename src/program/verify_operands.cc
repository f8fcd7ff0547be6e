#include "program/verify_operands.h"

#include <fmt/format.h>

#include <algorithm>

#include "program/opcode_parts.h"
#include "program/text.h"

namespace heddle {

Wanted OperandCheck::At(LocalId l, int microbatch, bool any_version) const {
  const Local& at = local(l);
  if (at.Is<FromParameter>()) {
    ParameterGroupId stored = at.As<FromParameter>().group;
    bool gathered = Visits(stage().groups[stored]);
    BufferKind kind = gathered ? BufferKind::kGathered : BufferKind::kWeights;
    return {Buffer{kind, now().stage, stored, -1, 0}, gathered};
  }
  return {Buffer{BufferKind::kLocal, now().stage, l, at.once ? -1 : microbatch, 0}, any_version};
}

Wanted OperandCheck::GradientsOf(ParameterGroupId group, int microbatch) const {
  bool each = SplitsGradients(stage().groups[group].zero);
  return {Buffer{BufferKind::kWeightGradients, now().stage, group, each ? microbatch : -1, 0},
          false};
}

std::string OperandCheck::NameOf(BufferId id) const {
  return id.valid() ? BufferName(program_, run_.buffers[id]) : "nothing";
}

void OperandCheck::CompareList(std::string_view verb, const BufferIds& is,
                               const WantedList& wanted) {
  if (is.size() != wanted.size()) {
    return Wrong(fmt::format("{} {} buffers, must be {}", verb, is.size(), wanted.size()));
  }
  for (size_t i = 0; i < is.size(); ++i) {
    const std::optional<Buffer>& buffer = wanted[i].buffer;
    bool fits = is[i].valid() == buffer.has_value();
    if (fits && buffer) fits = wanted[i].Fits(run_.buffers[is[i]]);
    if (fits) continue;
    Wrong(fmt::format("{} {}, must be {}", verb, NameOf(is[i]),
                      buffer ? BufferName(program_, *buffer) : "nothing"));
  }
}

void OperandCheck::Compare(const WantedList& reads, const WantedList& writes,
                           const WantedList& adds) {
  CompareList("reads", now().reads, reads);
  CompareList("writes", now().writes, writes);
  CompareList("adds to", now().adds, adds);
}

void OperandCheck::CheckStream() {
  Stream wanted = StreamOf(program_, now());
  if (now().stream == wanted) return;
  Wrong(fmt::format("is on the {} stream, must be on {}", heddle::NameOf(now().stream),
                    heddle::NameOf(wanted)));
}

namespace {

Wanted Saved(const OperandCheck& at) {
  const Instruction& now = at.now();
  return {Buffer{BufferKind::kSaved, now.stage, now.segment(), now.microbatch, 0}, false};
}

void AddOnce(WantedList& list, const Wanted& wanted) {
  bool there = std::any_of(list.begin(), list.end(),
                           [&](const Wanted& at) { return *at.buffer == *wanted.buffer; });
  if (!there) list.push_back(wanted);
}

void CheckForward(OperandCheck& at) {
  const Instruction& now = at.now();
  const Segment& segment = at.stage().segments[now.segment()];
  WantedList reads, writes;
  for (const SegmentInput& input : segment.inputs)
    reads.push_back(at.At(input.local, now.microbatch, now.recompute));
  for (const SegmentOutput& output : segment.outputs) {
    writes.push_back(at.At(output.local));
    writes.back().any_version = false;
    writes.back().buffer->version = now.recompute ? 1 : 0;
  }
  bool keeps = segment.has_backward && (!segment.unit.valid() || now.recompute);
  if (keeps) writes.push_back(Saved(at));
  at.Compare(reads, writes, {});
}

void CheckBackward(OperandCheck& at) {
  const Instruction& now = at.now();
  const Segment& segment = at.stage().segments[now.segment()];
  Half half = now.half;
  WantedList reads, writes, adds;
  for (const SegmentOutput& output : segment.outputs) {
    if (half == Half::kW) break;
    bool comes = output.gradient.valid() && !at.local(output.gradient).Is<FromSeed>();
    reads.push_back(comes ? at.At(output.gradient, now.microbatch, false) : Wanted{});
  }
  reads.push_back(Saved(at));
  for (const SegmentInput& input : segment.inputs) {
    Wanted from = at.At(input.local);
    if (from.buffer->kind == BufferKind::kGathered) reads.push_back(from);
    if (input.again)
      reads.push_back(
          {Buffer{BufferKind::kLocal, now.stage, input.local, now.microbatch, 1}, false});
    if (half != Half::kBW && (half == Half::kW) != input.late) continue;
    if (input.trained) AddOnce(adds, at.GradientsOf(from.buffer->group(), now.microbatch));
    if (!input.gradient.valid()) continue;
    Wanted gradient = at.At(input.gradient, now.microbatch, false);
    if (at.local(input.gradient).once) {
      AddOnce(adds, gradient);
    } else {
      writes.push_back(gradient);
    }
  }
  at.Compare(reads, writes, adds);
}

bool IsHere(const OperandCheck& at, StageId stage) {
  const std::vector<StageId>& stages = at.run().stages;
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

Wanted FinalGradients(const OperandCheck& at) {
  return {FinalGradients(at.program(), at.now().stage, at.now().group()), false};
}

Wanted Gathered(const OperandCheck& at) {
  Wanted gathered = at.Of(BufferKind::kGathered);
  gathered.any_version = true;
  return gathered;
}

}  // namespace

void CheckRun(OperandCheck& at) {
  at.now().half == Half::kF ? CheckForward(at) : CheckBackward(at);
}

void CheckLoad(OperandCheck& at) {
  if (!at.local().Is<FromLoad>()) at.Wrong("loads a value that is not an input");
  at.Compare({}, {at.At(at.now().local())}, {});
}

void CheckReshard(OperandCheck& at) {
  at.Compare({at.At(at.local().As<FromReshard>().local)}, {at.At(at.now().local())}, {});
}

void CheckSum(OperandCheck& at) {
  WantedList reads;
  if (at.local().Is<FromMicrobatchSum>()) {
    LocalId term = at.local().As<FromMicrobatchSum>().local;
    for (int m = 0; m < at.program().microbatches; ++m) reads.push_back(at.At(term, m, false));
  } else if (at.local().Is<FromSum>()) {
    for (LocalId term : at.local().As<FromSum>().terms) reads.push_back(at.At(term));
  }
  if (reads.empty()) at.Wrong("sums a value that is not a sum");
  at.Compare(reads, {at.At(at.now().local())}, {});
}

void CheckAddGradient(OperandCheck& at) {
  LocalId gradient = at.now().local();
  const std::vector<LocalId>& gradients = at.stage().parameter_gradients;
  if (std::find(gradients.begin(), gradients.end(), gradient) == gradients.end()) {
    return at.Wrong("adds a value that is not the gradient of a parameter");
  }
  for (const Local& stored : at.stage().locals) {
    if (!stored.Is<FromParameter>() || stored.value != at.local().value) continue;
    return at.Compare({at.At(gradient)}, {},
                      {at.GradientsOf(stored.As<FromParameter>().group, -1)});
  }
  at.Wrong("adds the gradient of a value that is not a parameter");
}

void CheckFactorGradient(OperandCheck& at) {
  const FactorGradient& gradient = at.stage().factor_gradients[at.now().factor_gradient()];
  WantedList reads;
  for (LocalId factor : gradient.factors) reads.push_back(at.At(factor));
  ParameterGroupId group = at.local(gradient.parameter).As<FromParameter>().group;
  at.Compare(reads, {}, {at.GradientsOf(group, at.now().microbatch)});
}

void CheckSend(OperandCheck& at) {
  at.Compare({at.At(at.program().transfers[at.now().transfer()].from_local)}, {}, {});
}

void CheckRecv(OperandCheck& at) {
  at.Compare({}, {at.At(at.program().transfers[at.now().transfer()].to_local)}, {});
}

void CheckSyncTied(OperandCheck& at) {
  WantedList held;
  for (const auto& [s, g] : at.program().tied[at.now().tied()].holders) {
    if (IsHere(at, s)) held.push_back({FinalGradients(at.program(), s, g), false});
  }
  at.Compare(held, {}, held);
}

void CheckReport(OperandCheck& at) {
  WantedList reads;
  for (StageId s : at.run().stages) {
    LocalId loss = at.program().stages[s].loss;
    if (!loss.valid()) continue;
    for (int m = 0; m < at.program().microbatches; ++m)
      reads.push_back({Buffer{BufferKind::kLocal, s, loss, m, 0}, false});
  }
  for (StageId s : at.run().stages) {
    const ParameterGroups& groups = at.program().stages[s].groups;
    for (ParameterGroupId g : groups.ids()) {
      if (groups[g].trained && !groups[g].spilled)
        reads.push_back({FinalGradients(at.program(), s, g), false});
    }
  }
  at.Compare(reads, {at.Report()}, {});
}

void CheckReduceGradients(OperandCheck& at) {
  WantedList none, made = {at.Of(BufferKind::kReduced)};
  bool added = SplitsGradients(at.group().zero);
  at.Compare({at.Of(BufferKind::kWeightGradients, at.now().microbatch)}, added ? none : made,
             added ? made : none);
}

void CheckReduceShards(OperandCheck& at) {
  at.Compare({at.Of(BufferKind::kReduced)}, {at.Of(BufferKind::kReduced, -1, 1)}, {});
}

void CheckUpdate(OperandCheck& at) {
  bool spilled = at.group().spilled;
  Wanted weights = spilled ? Gathered(at) : at.Of(BufferKind::kWeights);
  at.Compare({FinalGradients(at), spilled ? weights : at.Report()}, {},
             {weights, at.Of(BufferKind::kOptimizer)});
}

void CheckFetch(OperandCheck& at) {
  if (at.group().spilled && !at.now().writes.empty())
    return at.Compare({at.Of(BufferKind::kHostWeights)}, {Gathered(at)}, {});
  at.Compare({at.Of(BufferKind::kHostOptimizer)}, {}, {at.Of(BufferKind::kOptimizer)});
}

void CheckEvict(OperandCheck& at) {
  const BufferIds& adds = at.now().adds;
  bool of_weights = adds.size() == 1 && at.run().buffers[adds[0]].kind == BufferKind::kHostWeights;
  if (at.group().spilled && of_weights)
    return at.Compare({Gathered(at)}, {}, {at.Of(BufferKind::kHostWeights)});
  at.Compare({at.Of(BufferKind::kOptimizer)}, {}, {at.Of(BufferKind::kHostOptimizer)});
}

void CheckGatherWeights(OperandCheck& at) {
  Wanted weights = at.Of(BufferKind::kWeights);
  if (SplitsWeights(at.group().zero)) return at.Compare({weights}, {Gathered(at)}, {});
  if (!SplitsState(at.group().zero) && at.group().server < 0)
    at.Wrong("gathers weights that are not split");
  at.Compare({weights}, {}, {weights});
}

void CheckOperands(const Program& program, Findings& findings) {
  for (size_t r = 0; r < program.runs.size(); ++r) {
    for (size_t i = 0; i < program.runs[r].instructions.size(); ++i) {
      OperandCheck check(program, r, i, findings);
      check.CheckStream();
      DefOf(check.now().op).check(check);
    }
  }
}

}  // namespace heddle
