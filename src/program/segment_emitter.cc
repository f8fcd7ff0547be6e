#include "program/segment_emitter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "program/recompute_owners.h"

namespace heddle {
namespace {

void AddUnique(BufferIds& list, BufferId id) {
  if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
}

}  // namespace

// ---- Buffers.

// What belongs to a unit is made again with it.
int SegmentEmitter::VersionOf(StageId s, LocalId l, const Context& context) {
  return context.again && OwnerOf(s, l) == context.unit ? 1 : 0;
}

UnitId SegmentEmitter::OwnerOf(StageId s, LocalId l) {
  IdVector<LocalId, UnitId>& of_stage = owners_[s];
  if (of_stage.empty()) of_stage = FindRecomputeOwners(stage(s));
  return of_stage[l];
}

Buffer SegmentEmitter::LocalBuffer(StageId s, LocalId l, const Context& context) {
  const Local& at = local(s, l);
  int version = at.once ? 0 : VersionOf(s, l, context);
  return {BufferKind::kLocal, s, l, at.once ? -1 : context.microbatch, version};
}

BufferId SegmentEmitter::WeightsOf(StageId s, ParameterGroupId g) {
  if (!Visits(group(s, g))) return Get({BufferKind::kWeights, s, g, -1, 0}, true);
  auto found = gathered_.find({s, g});
  HEDDLE_CHECK(found != gathered_.end(), "the weights of group {} are not gathered", g);
  return Get({BufferKind::kGathered, s, g, -1, found->second});
}

BufferId SegmentEmitter::Provide(StageId s, LocalId l, const Context& context) {
  const Local& at = local(s, l);
  if (at.Is<FromParameter>()) return WeightsOf(s, at.As<FromParameter>().group);
  if (at.Is<FromConstant>()) return Get({BufferKind::kLocal, s, l, -1, 0}, true);
  Buffer buffer = LocalBuffer(s, l, context);
  if (BufferId known = list_.Find(buffer); known.valid()) return known;
  if (at.Is<FromLoad>()) {
    BufferId made = Get(buffer);
    Add(Opcode::kLoad, s, l, context.microbatch).writes = {made};
    return made;
  }
  if (at.Is<FromReshard>()) return AddReshard(s, l, buffer, context);
  BufferIds terms;
  if (at.Is<FromMicrobatchSum>()) {
    for (int m = 0; m < program_.microbatches; ++m)
      terms.push_back(Provide(s, at.As<FromMicrobatchSum>().local, {m, {}, false}));
  } else {
    HEDDLE_CHECK(at.Is<FromSum>(), "local {} of stage {} (value {}, source {}) is not there", l, s,
                 at.value, at.source.index());
    for (LocalId term : at.As<FromSum>().terms) terms.push_back(Provide(s, term, context));
  }
  return AddSum(s, l, buffer, std::move(terms));
}

BufferId SegmentEmitter::AddReshard(StageId s, LocalId l, const Buffer& buffer,
                                    const Context& context) {
  const FromReshard& source = local(s, l).As<FromReshard>();
  BufferId from = Provide(s, source.local, context);
  BufferId made = Get(buffer);
  Instruction& step = Add(Opcode::kReshard, s, l, buffer.microbatch);
  step.reads = {from};
  step.writes = {made};
  return made;
}

BufferId SegmentEmitter::Arriving(StageId s, LocalId l, int microbatch) {
  return Get(LocalBuffer(s, l, {microbatch, {}, false}));
}

BufferId SegmentEmitter::AddSum(StageId s, LocalId l, const Buffer& buffer, BufferIds terms) {
  BufferId made = Get(buffer);
  Instruction& sum = Add(Opcode::kSum, s, l, buffer.microbatch);
  sum.reads = std::move(terms);
  sum.writes = {made};
  return made;
}

// ---- Segments.

void SegmentEmitter::BringWeights(StageId s, SegmentId g, Half half, int microbatch) {
  if (plan_.offload == Offload::kAll) {
    EnterShard(s, segment(s, g), half, microbatch);
  } else {
    GatherFor(s, g);
  }
}

// The spilled groups that a shard reads.
std::vector<ParameterGroupId> SegmentEmitter::SpilledOf(StageId s, int shard) const {
  std::vector<ParameterGroupId> groups;
  for (const Segment& at : stage(s).segments) {
    if (at.phase != Phase::kMain || at.shard != shard) continue;
    for (const SegmentInput& input : at.inputs) {
      ParameterGroupId g = GroupOf(s, input.local);
      if (!g.valid() || !group(s, g).spilled) continue;
      if (std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
    }
  }
  return groups;
}

// A pass comes to a shard: its weights are fetched, and those of the shards that come next. What the last shard of the
// forward pass has stays for the backward pass.
void SegmentEmitter::EnterShard(StageId s, const Segment& at, Half half, int microbatch) {
  if (at.phase != Phase::kMain) return;
  bool forward = half == Half::kF;
  bool turns = !forward && at.shard == ShardCount(plan_.stages[s.index()]) - 1;
  // The backward of the last shard follows its forward at once: one visit.
  list_.BeginVisit({s, at.shard,
                    turns              ? Half::kF
                    : half == Half::kF ? half
                                       : Half::kB,
                    microbatch});
  if (entered_ == std::tuple(s, at.shard, forward, microbatch)) return;
  entered_ = {s, at.shard, forward, microbatch};
  Gathered held;
  for (int ahead = 0; ahead <= plan_.prefetch; ++ahead) {
    int shard = forward ? at.shard + ahead : at.shard - ahead;
    for (ParameterGroupId g : SpilledOf(s, shard)) {
      auto found = gathered_.find({s, g});
      if (found == gathered_.end()) {
        found = gathered_.emplace(std::pair(s, g), next_gather_++).first;
        Instruction& fetch = Add(Opcode::kFetch, s, g, -1);
        fetch.reads = {Get({BufferKind::kHostWeights, s, g, -1, 0}, true)};
        fetch.writes = {Get({BufferKind::kGathered, s, g, -1, found->second})};
      }
      held.insert(*found);
    }
  }
  gathered_ = std::move(held);
}

void SegmentEmitter::GatherFor(StageId s, SegmentId g) {
  if (!SplitsWeights(plan_.zero.level)) return;
  const Segment& segment = this->segment(s, g);
  bool reads = std::any_of(segment.inputs.begin(), segment.inputs.end(), [&](const auto& input) {
    ParameterGroupId read = GroupOf(s, input.local);
    return read.valid() && SplitsWeights(group(s, read).zero);
  });
  if (!reads) return;
  // The block that needs its weights now, then those that come next: a block may have several groups. Blocks of the next
  // pass count as well, so that the first of them need not wait. Every pass gathers its own.
  BlockId block = segment.block;
  int ahead = 0;
  size_t first = 0;
  while (first < gather_order_.size() && gather_order_[first].block != block) ++first;
  for (size_t i = first; i < gather_order_.size(); ++i) {
    const GatheredGroup& at = gather_order_[i];
    if (at.block != block && ++ahead > plan_.prefetch) return;
    block = at.block;
    Gather(at, gathered_);
  }
  GatherForNextPass(first, ahead);
}

// This pass still reads the groups from `first` on, and has gathered so many blocks ahead.
void SegmentEmitter::GatherForNextPass(size_t first, int ahead) {
  BlockId block;
  for (const GatheredGroup& next : next_order_) {
    if (next.block != block && ++ahead > plan_.prefetch) break;
    block = next.block;
    // A device has one place for the weights of a group.
    bool held = std::any_of(gather_order_.begin() + static_cast<std::ptrdiff_t>(first),
                            gather_order_.end(), [&](const GatheredGroup& other) {
                              return other.stage == next.stage && other.group == next.group;
                            });
    if (!held) Gather(next, gathered_next_);
  }
}

void SegmentEmitter::Gather(const GatheredGroup& at, Gathered& gathered) {
  if (!gathered.emplace(std::pair(at.stage, at.group), next_gather_).second) return;
  Instruction& gather = Add(Opcode::kGatherWeights, at.stage, at.group, -1);
  gather.reads = {Get({BufferKind::kWeights, at.stage, at.group, -1, 0}, true)};
  gather.writes = {Get({BufferKind::kGathered, at.stage, at.group, -1, next_gather_})};
  ++next_gather_;
}

SegmentEmitter::OpenPass SegmentEmitter::BeginPass(const Pass& pass, const Pass& next) {
  OpenPass open(pass.stage, ++passes_);
  if (plan_.offload == Offload::kAll) return open;
  gathered_ = std::exchange(gathered_next_, {});
  gather_order_ = GatherOrder(pass);
  next_order_ = GatherOrder(next);
  if (gather_order_.empty()) GatherForNextPass(0, 0);
  return open;
}

std::vector<SegmentEmitter::GatheredGroup> SegmentEmitter::GatherOrder(const Pass& pass) const {
  std::vector<GatheredGroup> order;
  if (!pass.stage.valid() || !SplitsWeights(plan_.zero.level)) return order;
  for (const Segment& at : stage(pass.stage).segments) {
    for (const SegmentInput& input : at.inputs) {
      ParameterGroupId g = GroupOf(pass.stage, input.local);
      if (!g.valid() || !SplitsWeights(group(pass.stage, g).zero)) continue;
      bool seen = std::any_of(order.begin(), order.end(),
                              [&](const GatheredGroup& other) { return other.group == g; });
      if (!seen) order.push_back({pass.stage, g, at.block});
    }
  }
  if (!pass.forward) std::reverse(order.begin(), order.end());
  return order;
}

void SegmentEmitter::EmitForward(const OpenPass& pass, SegmentId g, const Context& context) {
  StageId s = StageOf(pass);
  const Segment& at = segment(s, g);
  BringWeights(s, g, context.again ? Half::kB : Half::kF, context.microbatch);
  BufferIds reads;
  for (const SegmentInput& input : at.inputs) reads.push_back(Provide(s, input.local, context));
  Instruction& run = Add(Opcode::kRun, s, g, context.microbatch);
  run.recompute = context.again;
  run.reads = std::move(reads);
  for (const SegmentOutput& output : at.outputs) {
    run.writes.push_back(Get(LocalBuffer(s, output.local, context)));
  }
  bool keeps = at.has_backward && (!at.unit.valid() || context.again);
  if (keeps) run.writes.push_back(Get(SavedBuffer(s, g, context.microbatch)));
}

void SegmentEmitter::EmitBackward(const OpenPass& pass, SegmentId g, Half half, int microbatch) {
  StageId s = StageOf(pass);
  const Segment& at = segment(s, g);
  BringWeights(s, g, half, microbatch);
  Context context{microbatch, {}, false};
  BufferIds reads;
  for (const SegmentOutput& output : at.outputs) {
    bool comes = output.gradient.valid() && !local(s, output.gradient).Is<FromSeed>();
    if (half == Half::kW) break;
    reads.push_back(comes ? Provide(s, output.gradient, context) : BufferId{});
  }
  GatherAgain(s, g, microbatch);
  if (half != Half::kW) GatherAgain(s, NextBackward(s, g), microbatch);  // while this one runs
  reads.push_back(Get(SavedBuffer(s, g, microbatch)));
  BufferIds adds, writes;
  for (const SegmentInput& input : at.inputs) {
    ParameterGroupId from = GroupOf(s, input.local);
    if (from.valid() && Visits(group(s, from))) reads.push_back(WeightsOf(s, from));
    if (input.again) reads.push_back(Get({BufferKind::kLocal, s, input.local, microbatch, 1}));
    bool mine = half == Half::kBW || (half == Half::kW) == input.late;
    if (!mine) continue;
    if (input.trained) AddUnique(adds, GradientsOf(s, from, microbatch));
    if (!input.gradient.valid()) continue;
    BufferId gradient = Get(LocalBuffer(s, input.gradient, context));
    if (local(s, input.gradient).once) {
      AddUnique(adds, gradient);
    } else {
      writes.push_back(gradient);
    }
  }
  Instruction& run = Add(Opcode::kRun, s, g, microbatch);
  run.half = half;
  run.reads = std::move(reads);
  run.writes = std::move(writes);
  run.adds = std::move(adds);
}

// What a segment's backward needs and forward did not keep.
void SegmentEmitter::GatherAgain(StageId s, SegmentId g, int microbatch) {
  if (!g.valid()) return;
  for (const SegmentInput& input : segment(s, g).inputs) {
    Buffer buffer{BufferKind::kLocal, s, input.local, microbatch, 1};
    if (!input.again || Exists(buffer)) continue;
    BufferId from =
        Provide(s, local(s, input.local).As<FromReshard>().local, {microbatch, {}, false});
    Instruction& step = Add(Opcode::kReshard, s, input.local, microbatch);
    step.reads = {from};
    step.writes = {Get(buffer)};
  }
}

SegmentId SegmentEmitter::NextBackward(StageId s, SegmentId g) const {
  while (--g.value >= 0) {
    const Segment& at = segment(s, g);
    if (at.phase == Phase::kMain && at.has_backward) return g;
  }
  return {};
}

BufferId SegmentEmitter::GradientsOf(StageId s, ParameterGroupId g, int microbatch) {
  bool each = SplitsGradients(group(s, g).zero);
  return Get({BufferKind::kWeightGradients, s, g, each ? microbatch : -1, 0});
}

void SegmentEmitter::EmitFactors(const OpenPass& pass, SegmentId g, int microbatch, bool computes) {
  StageId s = StageOf(pass);
  UnitId unit = segment(s, g).unit;
  for (FactorGradientId f : stage(s).factor_gradients.ids()) {
    const FactorGradient& at = stage(s).factor_gradients[f];
    if (at.segment != g) continue;
    BufferIds factors;
    for (LocalId l : at.factors) factors.push_back(Provide(s, l, {microbatch, unit, unit.valid()}));
    if (!computes) continue;
    BufferId gradients = GradientsOf(s, GroupOf(s, at.parameter), microbatch);
    Instruction& compute = Add(Opcode::kFactorGradient, s, f, microbatch);
    compute.reads = std::move(factors);
    compute.adds = {gradients};
  }
}

}  // namespace heddle
