#include "search/placement/by_type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "base/parallel.h"
#include "cluster/select.h"
#include "cluster/topology.h"
#include "search/explore/exact_search.h"
#include "search/judge/judge.h"

namespace heddle {
namespace {

constexpr size_t kMostTypes = 4;
constexpr size_t kMostWide = 16;  // simulated plans

// Maps the devices of a plan on a part of the cluster to those of the whole.
void Return(const SearchTask& task, const std::vector<int64_t>& devices, Plan& plan) {
  plan.cluster = task.cluster;
  for (Stage& stage : plan.stages) {
    std::vector<int64_t> places;
    for (int64_t device : DevicesOf(stage.mesh)) {
      places.push_back(devices[static_cast<size_t>(device)]);
    }
    Place(stage.mesh, places);
  }
}

// The same problem on other devices.
SearchTask On(const SearchTask& task, const Cluster& cluster) {
  SearchProblem part = OnCluster(task, cluster);
  // Slow devices and profiles of other devices do not apply.
  part.sim.slow.clear();
  std::erase_if(part.sim.profiles, [&](const std::shared_ptr<const Profile>& profile) {
    return std::none_of(cluster.device_types.begin(), cluster.device_types.end(),
                        [&](const DeviceType& type) { return type.name == profile->device; });
  });
  SearchEffort effort;
  effort.every_microbatch = task.effort.every_microbatch;
  effort.deadline = task.effort.deadline;
  effort.stop = task.effort.stop;
  effort.progress = task.effort.progress;
  return {part, effort};
}

std::string NamesOf(const Cluster& cluster, uint32_t types) {
  std::string names;
  for (size_t t = 0; t < cluster.device_types.size(); ++t) {
    if ((types >> t & 1) == 0) continue;
    names += (names.empty() ? "" : " and ") + cluster.device_types[t].name;
  }
  return names;
}

std::vector<std::string> Degrees(const Mesh& mesh) {
  std::vector<std::string> degrees;
  for (const MeshAxis& axis : mesh.axes)
    degrees.push_back(fmt::format("{} {}", axis.name, axis.size));
  return degrees;
}

// A plan over several types.
struct Wide {
  Proposal proposal;
  uint32_t groups = 0;
  size_t base = 0;                 // plans with the same number differ only in recomputation
  std::vector<int64_t> most = {};  // samples of a micro-batch for a rank of each type
};

class ByType {
 public:
  ByType(const SearchTask& task, const Placements& space, Proposals& out)
      : task_(task), space_(space), out_(out) {}

  void Run() {
    size_t types = task_.cluster.device_types.size();
    if (types < 2 || types > kMostTypes) return;
    for (size_t type = 0; type < types; ++type) {
      if (task_.effort.Over() && !out_.plans.empty()) return;
      AddAlone(type);
    }
    JudgeWide();
  }

 private:
  void AddAlone(size_t type) {
    std::vector<int64_t> devices;
    for (const DeviceRun& run : EqualRuns(task_.cluster)) {
      if (run.type.index() != type) continue;
      for (int64_t d = 0; d < run.count; ++d) devices.push_back(run.first.value + d);
    }
    Cluster cluster = Select(task_.cluster, devices);
    SearchTask on = On(task_, cluster);
    Proposals of = ProposeExact(on, nullptr);
    out_.considered += of.considered;
    if (of.plans.empty()) return;
    Proposal& best = of.plans.front();
    best.plan = Judge(on, best).plan;  // fitted to memory
    best.make = nullptr;
    best.refit = nullptr;
    best.improve = nullptr;
    Return(task_, devices, best.plan);
    best.bound = 0;
    uint32_t types = uint32_t{1} << task_.cluster.device_types.size();
    for (uint32_t set = 1; set < types; ++set) {
      if ((set >> type & 1) != 0 && !std::has_single_bit(set)) AddWide(best, type, set);
    }
    best.from += " on " + NamesOf(task_.cluster, uint32_t{1} << type);
    Keep(Judge(task_, best), best);
  }

  // The fraction of the time on one type that a plan takes on several types, counting only speed.
  double PartOf(size_t type, uint32_t groups) const {
    int last = space_.units().back().last_block;
    double one = 0, all = 0;
    for (size_t g = 0; g < space_.groups().size(); ++g) {
      const DeviceGroup& group = space_.groups()[g];
      double speed =
          static_cast<double>(group.size()) / space_.times().Seconds(group.type, 0, last, 1);
      if (group.type.index() == type) one += speed;
      if ((groups >> g & 1) != 0) all += speed;
    }
    return one / all;
  }

  // With the same number of micro-batches, with fewer that have more samples to share, and with
  // more that need less memory; each under all recomputation policies.
  void AddWide(const Proposal& alone, size_t type, uint32_t set) {
    uint32_t groups = 0;
    for (size_t g = 0; g < space_.groups().size(); ++g) {
      if ((set >> space_.groups()[g].type.index() & 1) != 0) groups |= uint32_t{1} << g;
    }
    int64_t m = alone.plan.microbatches;
    std::vector<int64_t> numbers = {m};
    if (!task_.fixed.microbatches && m % 2 == 0) numbers.push_back(m / 2);
    if (!task_.fixed.microbatches && alone.plan.batch % (2 * m) == 0) numbers.push_back(2 * m);
    RecomputePolicy now = alone.plan.stages.front().recompute.front();
    for (int64_t number : numbers) {
      Plan plan = alone.plan;
      plan.microbatches = number;
      std::optional<Plan> wide = space_.Widened(plan, groups);
      if (!wide) continue;
      ++bases_;
      for (const RecomputeDef& def : kRecomputePolicies) {
        RecomputePolicy policy = def.policy;
        if (task_.fixed.recompute && policy != now) continue;
        std::vector<RecomputePolicy>& all = wide->stages.front().recompute;
        std::fill(all.begin(), all.end(), policy);
        if (IsThere(*wide)) continue;
        double estimate =
            alone.estimate * PartOf(type, groups) * DefOf(policy).step / DefOf(now).step;
        std::string from = FromOf(wide->stages.front().mesh, number, policy, set);
        wide_.push_back({{*wide, std::move(from), estimate, 0, 0}, groups, bases_});
      }
    }
  }

  std::string FromOf(const Mesh& mesh, int64_t microbatches, RecomputePolicy policy,
                     uint32_t set) const {
    std::string text = fmt::format("{}, {} micro-batch{}", fmt::join(Degrees(mesh), " x "),
                                   microbatches, microbatches == 1 ? "" : "es");
    if (std::string_view words = DefOf(policy).in_names; !words.empty())
      text += fmt::format(", {}", words);
    return text + ", by speed on " + NamesOf(task_.cluster, set);
  }

  bool IsThere(const Plan& plan) const {
    return std::any_of(wide_.begin(), wide_.end(),
                       [&](const Wide& other) { return other.proposal.plan == plan; });
  }

  // Judges plans in the order of their estimates, two at a time, until the estimates exceed the
  // best found. A plan that does not fit is tried again with fewer samples for types whose memory
  // is too small.
  void JudgeWide() {
    std::stable_sort(wide_.begin(), wide_.end(), [](const Wide& a, const Wide& b) {
      return a.proposal.estimate < b.proposal.estimate;
    });
    std::vector<bool> done(bases_ + 1, false);  // a plan fits; its variants recompute more
    size_t judged = 0;
    for (size_t next = 0; judged < kMostWide && !task_.effort.Over();) {
      std::vector<Wide> now;
      for (; next < wide_.size() && now.size() < 2; ++next) {
        if (!done[wide_[next].base]) now.push_back(wide_[next]);
      }
      if (now.empty() || (found_ > 0 && now.front().proposal.estimate >= found_)) return;
      std::vector<JudgedPlan> results(now.size());
      task_.effort.Report("simulating " + now.front().proposal.from);
      InParallel(now.size(), [&](size_t i) { results[i] = Judge(task_, now[i].proposal); });
      for (size_t i = 0; i < now.size(); ++i) {
        done[now[i].base] = done[now[i].base] || results[i].fits;
        std::optional<Wide> less = WithLess(now[i], results[i]);
        if (less) wide_.insert(wide_.begin() + static_cast<std::ptrdiff_t>(next), std::move(*less));
        Keep(std::move(results[i]), std::move(now[i].proposal));
      }
      judged += now.size();
    }
  }

  // The number of samples that fit, given what these plans need, for types on which they do not.
  std::optional<Wide> WithLess(const Wide& wide, const JudgedPlan& judged) const {
    if (judged.fits || !judged.simulated) return std::nullopt;
    const Plan& plan = wide.proposal.plan;
    const MeshAxis& data = plan.stages.front().mesh.axes.front();
    int64_t width = plan.stages.front().mesh.size() / data.size;
    Wide less = wide;
    less.most.resize(task_.cluster.device_types.size(), INT64_MAX);
    double slack = static_cast<double>(judged.result.reserved_memory_bytes) /
                   static_cast<double>(judged.result.peak_memory_bytes);
    for (const DeviceResult& device : judged.result.devices) {
      double needs = static_cast<double>(device.peak_memory) * slack;
      auto has = static_cast<double>(MemoryLimit(task_, device.device));
      int64_t index = IndexIn(plan.stages.front().mesh, device.device);
      if (needs <= has || index < 0) continue;
      int64_t share = data.shares.empty() ? 1 : data.shares[static_cast<size_t>(index / width)];
      int64_t samples = plan.batch / plan.microbatches * share / UnitsOf(data);
      DeviceTypeId type = TypeOf(task_.cluster, DeviceId{static_cast<int32_t>(device.device)});
      auto fitting = static_cast<int64_t>(static_cast<double>(samples) * has / needs);
      int64_t& most = less.most[type.index()];
      most = std::min({most, samples - 1, fitting});
    }
    std::optional<Plan> made = space_.Widened(plan, wide.groups, less.most);
    if (!made || *made == plan || IsThere(*made)) return std::nullopt;
    less.proposal.plan = std::move(*made);
    return less;
  }

  void Keep(JudgedPlan judged, Proposal proposal) {
    if (judged.fits && (found_ == 0 || judged.result.step_seconds < found_)) {
      found_ = judged.result.step_seconds;
    }
    proposal.judged = std::make_shared<const JudgedPlan>(std::move(judged));
    out_.plans.push_back(std::move(proposal));
  }

  const SearchTask& task_;
  const Placements& space_;
  Proposals& out_;
  std::vector<Wide> wide_;
  size_t bases_ = 0;
  double found_ = 0;  // seconds of the fastest plan that fits
};

}  // namespace

void ProposeTypes(const SearchTask& task, const Placements& space, Proposals& out) {
  ByType(task, space, out).Run();
}

}  // namespace heddle
