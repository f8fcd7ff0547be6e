#include "program/parameter_groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace heddle {
namespace {

struct Stored {
  int local = -1;
  AxisMask reduce_axes = 0;
  bool trained = false;
  bool plain = true;  // read as stored, by blocks alone
  int segment = -1;   // the first of the main phase that reads it
  int block = -1, shard = -1;
  bool visiting = true;  // read as stored, by segments of the main phase alone
  bool shared = false;   // by those of several shards
};

std::vector<Stored> FindStored(const StageProgram& stage) {
  std::vector<Stored> all;
  std::vector<int> index(stage.locals.size(), -1);
  for (size_t l = 0; l < stage.locals.size(); ++l) {
    if (stage.locals[l].source.kind != SourceKind::kParameter) continue;
    index[l] = static_cast<int>(all.size());
    Stored stored;
    stored.local = static_cast<int>(l);
    all.push_back(stored);
  }
  for (size_t s = 0; s < stage.segments.size(); ++s) {
    const Segment& segment = stage.segments[s];
    for (const SegmentInput& input : segment.inputs) {
      int at = index[static_cast<size_t>(input.local)];
      if (at < 0) continue;
      Stored& stored = all[static_cast<size_t>(at)];
      stored.trained = stored.trained || input.trained;
      stored.reduce_axes |= input.partial_axes;
      if (segment.phase == Phase::kMain) {
        stored.shared = stored.shared || (stored.shard >= 0 && stored.shard != segment.shard);
        stored.shard = segment.shard;
      }
      if (segment.phase != Phase::kMain) {
        stored.plain = stored.visiting = false;
      } else if (stored.segment < 0) {
        stored.segment = static_cast<int>(s);
        stored.block = segment.block;
      } else if (stored.block != segment.block) {
        stored.plain = false;
      }
    }
  }
  for (const Local& local : stage.locals) {
    if (local.source.kind != SourceKind::kReshard) continue;
    int at = index[static_cast<size_t>(local.source.from)];
    if (at < 0) continue;
    all[static_cast<size_t>(at)].plain = all[static_cast<size_t>(at)].visiting = false;
  }
  for (const FactorGradient& gradient : stage.factor_gradients)
    all[static_cast<size_t>(index[static_cast<size_t>(gradient.parameter)])].trained = true;
  for (int gradient : stage.parameter_gradients) {
    const Local& local = stage.locals[static_cast<size_t>(gradient)];
    for (Stored& stored : all) {
      if (stage.locals[static_cast<size_t>(stored.local)].value != local.value) continue;
      stored.trained = true;
      stored.visiting = false;
      stored.reduce_axes |= local.sharding.partial_axes();
    }
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
  int64_t elements = 1;
  for (int64_t size : PaddedShape(mesh, sharding)) elements *= size;
  return elements;
}

// Of every shard of a pruned parameter.
std::vector<int64_t> KeptBy(const LoweringContext& context, const Mesh& mesh,
                            const ParameterSlot& slot) {
  const Value& value = context.expanded.model.graph.value(slot.parameter);
  auto pruned = context.plan.pruning.kept.find(value.name);
  if (pruned == context.plan.pruning.kept.end()) return {};
  double all = 1;
  for (int64_t size : value.type.shape) all *= static_cast<double>(size);
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

}  // namespace

void GroupParameters(const LoweringContext& context, int index, StageProgram& stage) {
  const std::map<ValueId, GradientSync>& sync =
      context.expanded.stages[static_cast<size_t>(index)].sync;
  int64_t servers = 0;  // so far: they take turns
  std::vector<Stored> all = FindStored(stage);
  // Backward finishes the last segment first; what the once phase reads, last of all.
  std::stable_sort(all.begin(), all.end(),
                   [](const Stored& a, const Stored& b) { return a.segment > b.segment; });
  AxisMask zero_axes = NamedAxes(stage.mesh, context.plan.zero.axes);
  // Groups that others may still join, by what they must have in common. Of a layer some gradients are reduced over
  // more axes than others (norms and biases under tensor parallelism), so several are open at a time.
  struct Open {
    int group = -1;
    int64_t bytes = 0;
  };
  std::map<std::tuple<bool, AxisMask, AxisMask, int, int, bool, bool>, Open> open;
  for (const Stored& stored : all) {
    Local& local = stage.locals[static_cast<size_t>(stored.local)];
    ParameterGroup group;
    group.trained = stored.trained;
    bool tied = context.reader_stages[local.value.index()].size() > 1;
    group.spilled = context.plan.offload == Offload::kAll && stored.visiting && !tied;
    group.offloaded = stored.trained && context.plan.offload != Offload::kNone;
    group.reduce_axes = stored.reduce_axes;
    auto chosen = sync.find(local.value);
    bool served = stored.trained && chosen != sync.end() &&
                  chosen->second == GradientSync::kServer &&
                  GroupSize(stage.mesh, group.reduce_axes) > 1;
    if (served) group.server = servers % GroupSize(stage.mesh, group.reduce_axes);
    bool split = context.plan.zero.level > 0 && !served;
    group.zero_axes = split ? zero_axes & stored.reduce_axes : 0;
    group.zero = GroupSize(stage.mesh, group.zero_axes) == 1 ? 0 : context.plan.zero.level;
    if (group.zero == 0) group.zero_axes = 0;
    if (group.zero == 3 && (!stored.plain || tied || stored.block < 0)) group.zero = 2;
    Open alone;
    // What stays together: all of a block with ZeRO 3, all of a shard where that is spilled.
    int place = group.zero == 3 ? stored.block : group.spilled ? stored.shard : -1;
    Open& at = tied || (group.spilled && stored.shared)
                   ? alone
                   : open[{group.trained, group.reduce_axes, group.zero_axes, group.zero, place,
                           served, group.spilled}];
    bool full = !Visits(group) && at.bytes >= context.plan.bucket_bytes;
    if (at.group < 0 || full) {
      at = {static_cast<int>(stage.groups.size()), 0};
      if (served) ++servers;
      stage.groups.push_back(std::move(group));
    }
    std::vector<ParameterSlot>& slots = stage.groups[static_cast<size_t>(at.group)].slots;
    local.source.from = at.group;
    local.source.step = static_cast<int>(slots.size());
    slots.push_back({local.value, local.sharding, {}});
    if (stored.trained) slots.back().kept = KeptBy(context, stage.mesh, slots.back());
    const std::vector<int64_t>& kept = slots.back().kept;
    int64_t elements = kept.empty() ? ElementsOf(stage.mesh, local.sharding)
                                    : *std::max_element(kept.begin(), kept.end());
    at.bytes += SizeOf(context.plan.precision.gradients) * elements;
  }
}

}  // namespace heddle
