// Makes plans of the tree search's strategies.
#include <algorithm>
#include <bit>

#include "cluster/select.h"
#include "plan/axes.h"
#include "plan/gradient_sync.h"
#include "plan/verify.h"
#include "search/explore/assemble.h"
#include "search/placement/block_times.h"
#include "search/placement/placement.h"

namespace heddle {
std::vector<Placements::Part> Placements::PartsOf(const PlacementStrategy& strategy) const {
  std::vector<Part> parts;
  const Action* last = nullptr;
  for (const PlacementUnit& unit : units_) {
    const Action& action =
        actions_[static_cast<size_t>(strategy[static_cast<size_t>(unit.decision)])];
    if (last != nullptr && *last == action) {
      parts.back().last_block = unit.last_block;
    } else {
      parts.push_back({unit.first_block, unit.last_block, action.groups, action.way,
                       DevicesIn(groups_, action.groups)});
    }
    last = &action;
  }
  std::vector<Part> out;
  for (const Part& part : parts) {
    if (part.way == Way::kPipeline) {
      AddPipeline(part, out);
    } else {
      out.push_back(part);
    }
  }
  return out;
}

// Places the blocks of a part in order on its groups, or on the devices of its only group, so that
// the longest time is as short as possible.
void Placements::AddPipeline(const Part& part, std::vector<Part>& parts) const {
  std::vector<Part> places;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if ((part.groups >> g & 1) == 0) continue;
    uint32_t only = uint32_t{1} << g;
    if (!std::has_single_bit(part.groups)) {
      places.push_back({0, 0, only, Way::kReplicate, groups_[g].devices});
      continue;
    }
    for (int64_t device : groups_[g].devices) {
      places.push_back({0, 0, only, Way::kReplicate, {device}});
    }
  }
  auto blocks = static_cast<size_t>(part.last_block - part.first_block);
  if (places.size() > blocks) places.resize(blocks);
  double samples = static_cast<double>(BatchSize(model_));
  auto seconds = [&](const Part& place, int first, int last) {
    auto size = static_cast<double>(place.devices.size());
    DeviceTypeId type = groups_[static_cast<size_t>(std::countr_zero(place.groups))].type;
    return times_.Seconds(type, first, last, std::max(1.0, samples / size));
  };
  // Each place takes as many blocks as fit in `most` seconds, and at least one.
  auto cut = [&](double most) {
    int at = part.first_block;
    for (size_t p = 0; p < places.size(); ++p) {
      int left = static_cast<int>(places.size() - p - 1), end = at + 1;
      while (end < part.last_block - left && seconds(places[p], at, end + 1) <= most) ++end;
      places[p].first_block = at;
      places[p].last_block = end;
      at = end;
    }
    return at == part.last_block;
  };
  double low = 0, high = seconds(places.front(), part.first_block, part.last_block);
  if (!cut(high)) high *= 64;
  for (int i = 0; i < 40; ++i) {
    double middle = (low + high) / 2;
    (cut(middle) ? high : low) = middle;
  }
  if (!cut(high)) places.back().last_block = part.last_block;
  parts.insert(parts.end(), places.begin(), places.end());
}

// Sets the data axis of a stage whose ranks have `width` devices each. Ranks without samples are
// left out.
bool Placements::SetData(const Part& part, int64_t samples, int64_t width,
                         const std::vector<int64_t>& most, Mesh& mesh,
                         std::vector<int64_t>& devices) const {
  std::vector<DeviceTypeId> type;
  for (size_t d = 0; d < part.devices.size(); d += static_cast<size_t>(width)) {
    for (const DeviceGroup& group : groups_) {
      if (std::binary_search(group.devices.begin(), group.devices.end(), part.devices[d])) {
        type.push_back(group.type);
      }
    }
  }
  constexpr double kTooMany = 1e9;  // so that these samples go elsewhere
  auto seconds = [&](size_t rank, int64_t n) {
    double each =
        times_.Seconds(type[rank], part.first_block, part.last_block, static_cast<double>(n));
    bool allowed = most.empty() || n <= most[type[rank].index()];
    return (each > 0 ? each : static_cast<double>(n)) * (allowed ? 1 : kTooMany);
  };
  std::vector<int64_t> shares = ShareSamples(samples, type.size(), seconds);
  MeshAxis axis = DataAxis(0);
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    if (shares[rank] == 0) continue;
    ++axis.size;
    axis.shares.push_back(shares[rank]);
    auto first = part.devices.begin() + static_cast<std::ptrdiff_t>(rank) * width;
    devices.insert(devices.end(), first, first + width);
  }
  bool even = std::all_of(axis.shares.begin(), axis.shares.end(),
                          [&](int64_t share) { return share == axis.shares.front(); });
  if (even) axis.shares.clear();
  if (axis.size > 1) mesh.axes.push_back(std::move(axis));
  return !devices.empty();
}

std::vector<Strategy> Placements::TensorStrategies(const Part& part, int64_t samples,
                                                   int64_t width) const {
  const DeviceGroup& group = groups_[static_cast<size_t>(std::countr_zero(part.groups))];
  Machine* machine = nullptr;
  {
    std::lock_guard lock(mutex_);
    std::unique_ptr<Machine>& at = machines_[{group.type.value, width}];
    if (!at) {
      at = std::make_unique<Machine>();
      std::vector<int64_t> devices(group.devices.begin(), group.devices.begin() + width);
      at->cluster = Select(task_.cluster, devices);
      at->prices = std::make_unique<Prices>(model_, at->cluster, PriceOptionsOf(task_));
    }
    machine = at.get();
  }
  int64_t ranks = static_cast<int64_t>(part.devices.size()) / width;
  PriceKey key;
  key.axes = {width};
  key.samples = DivisorUpTo(BatchSize(model_), std::max<int64_t>(1, samples / ranks));
  const Priced* priced = machine->prices->Of(key);
  if (priced == nullptr) return {};
  return machine->prices->StrategiesOf(*priced);
}

// Times of a micro-batch, as if all devices were like those of the first group.
void Placements::SetTimes(const Part& part, int64_t samples, int64_t devices, Stage& stage) const {
  constexpr double kLeast = 1e-9;
  DeviceTypeId type = groups_[static_cast<size_t>(std::countr_zero(part.groups))].type;
  double each = static_cast<double>(samples) / static_cast<double>(devices);
  double third =
      std::max(kLeast, times_.Seconds(type, part.first_block, part.last_block, each) / 3);
  stage.times = {third, third, third};
}

std::optional<Stage> Placements::StageOf(const Part& part, const Policy& policy) const {
  int64_t samples = BatchSize(model_) / policy.microbatches;
  Stage stage;
  stage.first_block = part.first_block;
  stage.last_block = part.last_block;
  stage.recompute.assign(static_cast<size_t>(part.last_block - part.first_block), policy.recompute);
  std::vector<Strategy> strategies(model_.graph.nodes.size());
  std::vector<int64_t> devices;
  if (part.way == Way::kDuplicate) {
    stage.mesh.axes = {{"dup", static_cast<int64_t>(part.devices.size())}};
    devices = part.devices;
    for (Strategy& strategy : strategies) strategy = {kReplicate};
  } else {
    int64_t width = 1;
    if (part.way == Way::kTensor) {
      const DeviceGroup& group = groups_[static_cast<size_t>(std::countr_zero(part.groups))];
      width = group.size() / group.machines;
      strategies = TensorStrategies(part, samples, width);
      if (strategies.empty()) return std::nullopt;
    }
    if (!SetData(part, samples, width, {}, stage.mesh, devices)) return std::nullopt;
    if (!stage.mesh.axes.empty()) strategies = WithDataAxis(model_, std::move(strategies));
    if (width > 1) stage.mesh.axes.push_back(FreeAxis(0, 1, width));
  }
  Place(stage.mesh, devices);
  SetTimes(part, samples, static_cast<int64_t>(devices.size()), stage);
  stage.strategies.resize(model_.graph.nodes.size());
  for (NodeId id : NodesAndSideNodesOf(model_, stage)) {
    stage.strategies[id.index()] = strategies[id.index()];
  }
  return stage;
}

// ZeRO 2 and 3 do not support servers.
bool Placements::SetServers(const std::vector<Part>& parts, const Policy& policy,
                            std::vector<Stage>& stages) const {
  bool any = std::any_of(parts.begin(), parts.end(),
                         [](const Part& part) { return part.way == Way::kServer; });
  if (!any) return true;
  if (policy.zero > DefOf(GradientSync::kServer).most_zero) return false;
  SyncRules rules(model_, stages);
  for (size_t s = 0; s < stages.size(); ++s) {
    if (parts[s].way != Way::kServer) continue;
    for (ValueId parameter : rules.ParametersOf(s)) {
      if (!rules.WhyNot(s, parameter, GradientSync::kServer).empty()) continue;
      stages[s].sync[parameter] = GradientSync::kServer;
    }
  }
  return true;
}

std::optional<Plan> Placements::ToPlan(const PlacementStrategy& strategy,
                                       const Policy& policy) const {
  Plan plan;
  plan.model.hash = hash_;
  plan.cluster = task_.cluster;
  plan.batch = BatchSize(model_);
  plan.microbatches = policy.microbatches;
  plan.precision = PrecisionOf(task_);
  plan.optimizer = task_.optimizer;
  plan.local_batch_statistics = task_.local_batch_statistics;
  plan.bucket_bytes = task_.bucket_bytes;
  plan.zero.level = policy.zero;
  if (policy.zero > 0) plan.zero.axes = {kDataAxis};
  std::vector<Part> parts = PartsOf(strategy);
  for (const Part& part : parts) {
    std::optional<Stage> stage = StageOf(part, policy);
    if (!stage) return std::nullopt;
    plan.stages.push_back(std::move(*stage));
  }
  if (!SetServers(parts, policy, plan.stages)) return std::nullopt;
  if (!Verify(plan, task_.model).empty()) return std::nullopt;
  return plan;
}

std::optional<Plan> Placements::Widened(const Plan& plan, uint32_t groups,
                                        const std::vector<int64_t>& most) const {
  if (plan.stages.size() != 1 || plan.chunks != 1) return std::nullopt;
  const Stage& old = plan.stages.front();
  if (!BeginsWithData(old.mesh)) return std::nullopt;
  Part part{old.first_block, old.last_block, groups, Way::kReplicate, DevicesIn(groups_, groups)};
  int64_t width = old.mesh.size() / old.mesh.axes.front().size;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if ((groups >> g & 1) == 0) continue;
    if (groups_[g].size() / groups_[g].machines % width != 0) return std::nullopt;
  }
  Plan wide = plan;
  Stage& stage = wide.stages.front();
  stage.mesh = {};
  std::vector<int64_t> devices;
  int64_t samples = wide.batch / wide.microbatches;
  if (!SetData(part, samples, width, most, stage.mesh, devices)) return std::nullopt;
  if (stage.mesh.axes.empty()) return std::nullopt;
  stage.mesh.axes.insert(stage.mesh.axes.end(), old.mesh.axes.begin() + 1, old.mesh.axes.end());
  Place(stage.mesh, devices);
  SetTimes(part, samples, static_cast<int64_t>(devices.size()), stage);
  if (!Verify(wide, task_.model).empty()) return std::nullopt;
  return wide;
}

}  // namespace heddle
