#include "report/group_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/integers.h"
#include "cluster/topology.h"
#include "plan/axes.h"
#include "search/placement/device_groups.h"
#include "search/searchers.h"

namespace heddle {
namespace {

// The number of samples of a micro-batch that these devices of a stage have together.
int64_t SamplesOf(const Plan& plan, const Stage& stage, const std::vector<int64_t>& devices) {
  int64_t samples = plan.batch / plan.microbatches;
  int data = AxisWithRole(stage.mesh, AxisRole::kReplicatedData);
  if (data < 0) return samples;
  size_t place = ToSize(data);
  const MeshAxis& axis = stage.mesh.axes[place];
  std::set<int64_t> ranks;
  for (int64_t device : devices) {
    ranks.insert(PositionOf(stage.mesh, IndexIn(stage.mesh, device))[place]);
  }
  int64_t units = 0;
  for (int64_t rank : ranks) {
    units += axis.shares.empty() ? 1 : axis.shares[ToSize(rank)];
  }
  return samples * units / UnitsOf(axis);
}

// The speed of the best plan relative to another judged plan.
std::string Against(const SearchResult& result, std::string_view from) {
  for (const JudgedPlan& judged : result.judged) {
    // At another ZeRO level the plan is named "FROM, ZeRO N".
    bool same = judged.from == from || judged.from.starts_with(fmt::format("{}, ZeRO", from));
    if (!same) continue;
    if (!judged.fits) return "which does not fit";
    return fmt::format("{:.2f}x",
                       judged.result.step_seconds / result.judged.front().result.step_seconds);
  }
  return "which was not judged";
}

}  // namespace

std::vector<GroupRow> GroupRows(const JudgedPlan& judged) {
  const Plan& plan = judged.plan;
  const Cluster& cluster = plan.cluster;
  std::vector<GroupRow> rows;
  std::vector<std::vector<int64_t>> members;
  for (const DeviceGroup& group : FindDeviceGroups(cluster)) {
    auto same = std::find_if(rows.begin(), rows.end(),
                             [&](const GroupRow& row) { return row.name == group.name; });
    if (same == rows.end()) {
      GroupRow row;
      row.name = group.name;
      row.device = cluster.type(group.type).name;
      same = rows.insert(rows.end(), std::move(row));
      members.emplace_back();
    }
    same->devices += group.size();
    std::vector<int64_t>& all = members[static_cast<size_t>(same - rows.begin())];
    all.insert(all.end(), group.devices.begin(), group.devices.end());
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    GroupRow& row = rows[r];
    std::sort(members[r].begin(), members[r].end());
    std::set<int64_t> used;
    std::vector<std::string> work;
    for (const Stage& stage : plan.stages) {
      std::vector<int64_t> here;
      for (int64_t device : members[r]) {
        if (IndexIn(stage.mesh, device) >= 0) here.push_back(device);
      }
      if (here.empty()) continue;
      used.insert(here.begin(), here.end());
      work.push_back(fmt::format("blocks {}..{}: {} of {}", stage.first_block, stage.last_block - 1,
                                 SamplesOf(plan, stage, here), plan.batch / plan.microbatches));
    }
    row.used = static_cast<int64_t>(used.size());
    constexpr size_t kShown = 3;
    size_t more = work.size() > kShown ? work.size() - kShown : 0;
    work.resize(work.size() - more);
    row.work = work.empty() ? "nothing" : fmt::format("{}", fmt::join(work, "; "));
    if (more > 0) row.work += fmt::format("; and {} more", more);
    double count = 0, step = judged.result.step_seconds;
    for (const DeviceResult& device : judged.result.devices) {
      if (!std::binary_search(members[r].begin(), members[r].end(), device.device)) continue;
      auto weight = static_cast<double>(device.count);
      auto has = static_cast<double>(
          cluster.type(TypeOf(cluster, DeviceId{static_cast<int32_t>(device.device)}))
              .memory.value);
      count += weight;
      row.busy += weight * device.compute / step;
      row.waiting += weight * device.exposed / step;
      row.memory = std::max(row.memory, static_cast<double>(device.peak_memory) / has);
    }
    if (count == 0) continue;
    row.busy /= count;
    row.waiting /= count;
    row.idle = std::max(0.0, 1 - row.busy - row.waiting);
  }
  return rows;
}

std::string GroupTable(const SearchResult& result) {
  const JudgedPlan& best = result.judged.front();
  if (IsHomogeneous(best.plan.cluster)) return "";
  std::string text =
      fmt::format("\n  {:<24} {:>7} {:>6} {:>8} {:>6} {:>7}  {}\n", "machines", "devices", "busy",
                  "waiting", "idle", "memory", "what they do (samples of a micro-batch)");
  for (const GroupRow& row : GroupRows(best)) {
    text += fmt::format("  {:<24} {:>7} {:>5.1f}% {:>7.1f}% {:>5.1f}% {:>6.1f}%  {}\n", row.name,
                        fmt::format("{}/{}", row.used, row.devices), 100 * row.busy,
                        100 * row.waiting, 100 * row.idle, 100 * row.memory, row.work);
  }
  text += fmt::format(
      "  against data parallelism {}, against data in proportion to speed {} (simulated)\n",
      Against(result, "data"), Against(result, kProportional));
  return text;
}

Json GroupsJson(const SearchResult& result) {
  Json groups = Json::array();
  for (const GroupRow& row : GroupRows(result.judged.front())) {
    groups.push_back({{"machines", row.name},
                      {"device", row.device},
                      {"devices", row.devices},
                      {"used", row.used},
                      {"work", row.work},
                      {"busy", row.busy},
                      {"waiting", row.waiting},
                      {"idle", row.idle},
                      {"memory", row.memory}});
  }
  return groups;
}

}  // namespace heddle
