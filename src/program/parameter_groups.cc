#include "program/parameter_groups.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <optional>

namespace heddle {
namespace {

struct Stored {
  LocalId local;
  AxisMask reduce_axes = 0;
  bool trained = false;
  bool plain = true;       // read as stored, by blocks alone
  SegmentId segment = {};  // the first of the main phase that reads it
  BlockId block = {};
  int shard = -1;
  bool visiting = true;  // read as stored, by segments of the main phase alone
  bool shared = false;   // by those of several shards
};

void AddReader(const Segment& segment, SegmentId id, const SegmentInput& input, Stored& stored) {
  stored.trained = stored.trained || input.trained;
  stored.reduce_axes |= input.partial_axes;
  if (segment.phase != Phase::kMain) {
    stored.plain = stored.visiting = false;
    return;
  }
  stored.shared = stored.shared || (stored.shard >= 0 && stored.shard != segment.shard);
  stored.shard = segment.shard;
  if (!stored.segment.valid()) {
    stored.segment = id;
    stored.block = segment.block;
  } else if (stored.block != segment.block) {
    stored.plain = false;
  }
}

std::vector<Stored> FindStored(const StageProgram& stage) {
  IdVector<LocalId, std::optional<Stored>> found(stage.locals.size());
  for (LocalId id : stage.locals.ids()) {
    if (stage.locals[id].Is<FromParameter>()) found[id] = Stored{.local = id};
  }
  for (SegmentId id : stage.segments.ids()) {
    const Segment& segment = stage.segments[id];
    for (const SegmentInput& input : segment.inputs) {
      if (found[input.local]) AddReader(segment, id, input, *found[input.local]);
    }
  }
  for (const Local& local : stage.locals) {
    if (!local.Is<FromReshard>()) continue;
    std::optional<Stored>& from = found[local.As<FromReshard>().local];
    if (from) from->plain = from->visiting = false;
  }
  for (const FactorGradient& gradient : stage.factor_gradients)
    found[gradient.parameter]->trained = true;
  for (LocalId gradient : stage.parameter_gradients) {
    const Local& local = stage.locals[gradient];
    for (std::optional<Stored>& stored : found) {
      if (!stored || stage.locals[stored->local].value != local.value) continue;
      stored->trained = true;
      stored->visiting = false;
      stored->reduce_axes |= local.sharding.partial_axes();
    }
  }
  std::vector<Stored> all;
  for (const std::optional<Stored>& stored : found) {
    if (stored) all.push_back(*stored);
  }
  return all;
}

AxisMask NamedAxes(const Mesh& mesh, const std::vector<std::string>& names) {
  AxisMask axes = 0;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (std::find(names.begin(), names.end(), mesh.axes[a].name) != names.end()) axes |= AxisSet(a);
  }
  return axes;
}

int64_t ElementsOf(const Mesh& mesh, const Sharding& sharding) {
  return ElementCount(PaddedShape(mesh, sharding));
}

// Of every shard of a pruned parameter.
std::vector<int64_t> KeptBy(const LoweringContext& context, const Mesh& mesh,
                            const ParameterSlot& slot) {
  const Value& value = context.expanded.model.graph.value(slot.parameter);
  auto pruned = context.plan.pruning.kept.find(value.name);
  if (pruned == context.plan.pruning.kept.end()) return {};
  auto all = static_cast<double>(ElementCount(value.type.shape));
  AxisMask split = slot.sharding.split_axes();
  std::vector<int64_t> kept;
  for (int64_t place = 0; place < GroupSize(mesh, split); ++place) {
    Position position(mesh.axes.size(), 0);
    int64_t rest = place;
    for (size_t a = mesh.axes.size(); a-- > 0;) {
      if (!Contains(split, a)) continue;
      position[a] = rest % mesh.axes[a].size;
      rest /= mesh.axes[a].size;
    }
    if (context.mask != nullptr) {
      Tile tile;
      for (const ShardedDim& dim : slot.sharding.dims) {
        tile.push_back(HeldRanges(mesh, dim, position));
      }
      kept.push_back(context.mask->CountIn(value.name, tile));
      continue;
    }
    double part = 1;
    for (int64_t size : LocalShape(mesh, slot.sharding, position))
      part *= static_cast<double>(size);
    kept.push_back(std::llround(static_cast<double>(pruned->second) * part / all));
  }
  return kept;
}

// What the parameters of a group have in common.
struct GroupKey {
  bool trained = false, served = false, spilled = false;
  AxisMask reduce_axes = 0, zero_axes = 0;
  int zero = 0;
  BlockId block = {};  // with ZeRO 3: all of a block stay together
  int shard = -1;      // of what is spilled: all of a shard do
  auto operator<=>(const GroupKey&) const = default;
};

// A parameter, what its group must have in common with it, and the bytes of its gradient.
struct Grouped {
  const Stored* stored = nullptr;
  ParameterSlot slot;
  ParameterGroup like;  // without slots
  bool served = false;
  bool alone = false;
  int64_t bytes = 0;
  GroupKey key() const {
    GroupKey key{like.trained,   served,    like.spilled, like.reduce_axes,
                 like.zero_axes, like.zero, {},           -1};
    if (SplitsWeights(like.zero)) {
      key.block = stored->block;
    } else if (like.spilled) {
      key.shard = stored->shard;
    }
    return key;
  }
};

Grouped GroupedOf(const LoweringContext& context, StageId id, const StageProgram& stage,
                  const Stored& stored) {
  const Local& local = stage.locals[stored.local];
  const std::map<ValueId, GradientSync>& sync = context.expanded.stages[id.index()].sync;
  Grouped out;
  out.stored = &stored;
  ParameterGroup& group = out.like;
  group.trained = stored.trained;
  bool tied = context.reader_stages[local.value.index()].size() > 1;
  group.spilled = context.plan.offload == Offload::kAll && stored.visiting && !tied;
  group.offloaded = stored.trained && context.plan.offload != Offload::kNone;
  group.reduce_axes = stored.reduce_axes;
  auto chosen = sync.find(local.value);
  out.served = stored.trained && chosen != sync.end() && chosen->second == GradientSync::kServer &&
               GroupSize(stage.mesh, group.reduce_axes) > 1;
  bool split = SplitsState(context.plan.zero.level) && !out.served;
  AxisMask zero_axes = NamedAxes(stage.mesh, context.plan.zero.axes);
  group.zero_axes = split ? zero_axes & stored.reduce_axes : 0;
  group.zero = GroupSize(stage.mesh, group.zero_axes) == 1 ? 0 : context.plan.zero.level;
  if (!SplitsState(group.zero)) group.zero_axes = 0;
  if (SplitsWeights(group.zero) && (!stored.plain || tied || !stored.block.valid())) group.zero = 2;
  out.alone = tied || (group.spilled && stored.shared);
  out.slot = {local.value, local.sharding, {}};
  if (stored.trained) out.slot.kept = KeptBy(context, stage.mesh, out.slot);
  const std::vector<int64_t>& kept = out.slot.kept;
  int64_t elements = kept.empty() ? ElementsOf(stage.mesh, local.sharding)
                                  : *std::max_element(kept.begin(), kept.end());
  out.bytes = SizeOf(context.plan.precision.gradients) * elements;
  return out;
}

}  // namespace

void GroupParameters(const LoweringContext& context, StageId id, StageProgram& stage) {
  // Reducing so few bytes takes hardly longer than the latency.
  constexpr int64_t kSmall = int64_t{1} << 20;
  int64_t servers = 0;  // so far: they take turns
  std::vector<Stored> all = FindStored(stage);
  // Backward finishes the last segment first; what the once phase reads, last of all.
  std::stable_sort(all.begin(), all.end(),
                   [](const Stored& a, const Stored& b) { return a.segment > b.segment; });
  // Groups that others may still join, by what they must have in common. Of a layer some gradients are reduced over
  // more axes than others (norms and biases under tensor parallelism), so several are open at a time.
  struct Open {
    ParameterGroupId group;
    int64_t bytes = 0;  // in it
    int64_t left = 0;   // of all parameters that are in no group yet
  };
  std::vector<Grouped> parameters;
  std::map<GroupKey, Open> open;
  for (const Stored& stored : all) {
    parameters.push_back(GroupedOf(context, id, stage, stored));
    if (!parameters.back().alone) open[parameters.back().key()].left += parameters.back().bytes;
  }
  for (Grouped& parameter : parameters) {
    Open none;
    Open& at = parameter.alone ? none : open[parameter.key()];
    int64_t most = std::min(context.plan.bucket_bytes, std::max(kSmall, at.left));
    bool full = !Visits(parameter.like) && at.bytes >= most;
    if (!at.group.valid() || full) {
      if (parameter.served)
        parameter.like.server = servers++ % GroupSize(stage.mesh, parameter.like.reduce_axes);
      at.group = stage.groups.Add(std::move(parameter.like));
      at.bytes = 0;
    }
    at.bytes += parameter.bytes;
    at.left -= parameter.bytes;
    std::vector<ParameterSlot>& slots = stage.groups[at.group].slots;
    stage.locals[parameter.stored->local].source = FromParameter{at.group, slots.size()};
    slots.push_back(std::move(parameter.slot));
  }
}

}  // namespace heddle
