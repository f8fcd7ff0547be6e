// The floors of configurations (floor.h): what their problems are made of.
#include <algorithm>
#include <cmath>

#include "search/estimate_internal.h"
#include "search/links.h"

namespace heddle {

std::vector<RecomputePolicy> Estimator::Policies() const {
  if (problem_.fixed.recompute) return {*problem_.fixed.recompute};
  return {kPolicies.begin(), kPolicies.end()};  // the first takes least time: recomputing only adds
}

FloorProblem Estimator::TimeProblemOf(const Configuration& c) {
  FloorProblem problem;
  problem.time = prices_.LeastTimeOf(KeyOf(c, Policies().front()));
  problem.plain = problem_.fixed.recompute ? prices_.LeastTimeOf(KeyOf(c, RecomputePolicy::kNone))
                                           : problem.time;
  problem.host = compute_.Host().total();
  problem.reduces_beside = problem_.sim.stack.overlap_gradients;
  problem.scale = scales_;
  Links links = LinksOf(c);
  problem.transfer = links.transfer;
  problem.report = links.report;
  problem.units = units_;
  return problem;
}

// What all ways to share parameters and their state among data ranks have in common: the last gradients are scattered,
// and every rank updates its part.
double Estimator::TimeFloor(const Configuration& c) {
  Configuration alike = c;
  alike.zero = 0;
  alike.offload = Offload::kNone;
  if (c.chunks == 1) alike.schedule = FindSchedule(c.schedule)->splits_backward ? "zb" : "1f1b";
  {
    std::lock_guard lock(mutex_);
    auto found = time_floors_.find(alike);
    if (found != time_floors_.end()) return found->second;
  }
  FloorProblem problem = TimeProblemOf(alike);
  Context context;
  alike.zero = 1;
  context.configuration = &alike;
  SetEnd(context, LeastKept(problem_.pruning, problem_.model.graph));
  problem.update = context.update;
  problem.traffic = problem.reduce = context.reduce;
  problem.reduce_latency = context.reduce_latency;
  problem.statistics = context.exposed_statistics;
  alike.zero = 0;
  double floor = FloorOf(alike, problem);
  std::lock_guard lock(mutex_);
  return time_floors_.try_emplace(alike, floor).first->second;
}

// What no stage sends faster to the next, and the all-reduce of all devices before updates. Devices of a stage are alike and
// send at the same time, each its part.
Estimator::Links Estimator::LinksOf(const Configuration& c) {
  constexpr int64_t kHops = 16;  // after these they are as before
  int64_t mesh = c.dp * c.inner(), all = mesh * c.pp;
  std::lock_guard lock(mutex_);
  auto [reported, unknown] = reports_.try_emplace(all, 0);
  if (unknown) {
    Mesh whole;
    whole.axes.push_back({"all", all});
    MeshLinks links(prices_.network(), whole);
    reported->second = links.Seconds(CollectiveKind::kAllReduce, AxisSet(0), 2 * sizeof(double));
  }
  Links links{reported->second, 0};
  if (c.pp == 1) return links;
  auto [at, fresh] = hops_.try_emplace({mesh, std::min(c.pp, kHops)});
  Hop& hop = at->second;
  for (int64_t s = 0; fresh && s + 1 < std::min(c.pp, kHops); ++s) {
    Hop one = HopBetween(s * mesh, mesh);
    if (s > 0) one = {std::min(one.latency, hop.latency), std::min(one.per_byte, hop.per_byte)};
    hop = one;
  }
  double bytes = least_crossing_bytes_ / static_cast<double>(c.microbatches * mesh);
  links.transfer = hop.latency + bytes * hop.per_byte;
  return links;
}

FloorProblem Estimator::FloorProblemOf(const Configuration& c) {
  FloorProblem problem = TimeProblemOf(c);
  Context context;
  context.configuration = &c;
  double kept = LeastKept(problem_.pruning, problem_.model.graph);
  SetEnd(context, kept);
  // Of what comes from the host that of two groups may come before the last backward has ended.
  problem.update = context.update;
  problem.host_update = context.host_copies;
  problem.early = 2 * context.host_copies * LargestGroup(c);
  HeldBytes held = BytesOf(c, kept);
  problem.bytes_per_parameter = held.weights + held.state;
  problem.gradient_bytes = held.gradients;
  problem.gathered_bytes = held.gathered;
  problem.room = prices_.LeastRoomOf(KeyOf(c, RecomputePolicy::kNone), Policies());
  problem.limit = limit_;
  problem.traffic = problem.reduce = context.reduce;
  problem.reduce_latency = context.reduce_latency;
  problem.gather_latency = context.gather_latency;
  problem.statistics = context.exposed_statistics;
  if (c.zero == 3) {
    // What is no layer stays whole.
    problem.layer_traffic =
        static_cast<double>(c.microbatches) * (2 * context.gather + context.reduce) -
        problem.traffic;
  } else {
    if (c.zero == 2) problem.traffic = static_cast<double>(c.microbatches) * context.reduce;
    problem.gather = context.gather;
  }
  return problem;
}

// Elements, at most, of parameters that are updated together (program/parameter_groups.h), were nothing split.
double Estimator::LargestGroup(const Configuration& c) const {
  double bucket = static_cast<double>(problem_.bucket_bytes) /
                  static_cast<double>(SizeOf(prices_.options().precision.gradients));
  return c.zero == 3 ? std::max(largest_block_, bucket + largest_parameter_)
                     : bucket + largest_parameter_;
}

double Estimator::CloseFloor(const Configuration& c) {
  FloorProblem problem = FloorProblemOf(c);
  auto power = [](double x) { return std::exp2(std::floor(std::log2(x))); };
  double seconds = problem.time->whole;
  double around =
      seconds / static_cast<double>(c.pp) / limit_;  // a device's memory as all its work
  if (c.chunks > 1) return FloorOf(c, problem);
  for (double level : {1.0 / 16, 0.25, 1.0, 4.0}) {
    // Powers of two, rounded down where that takes from what is counted.
    MemoryWorth worth;
    double per_parameter = power(level * around * problem.bytes_per_parameter);
    worth.per_byte = per_parameter / problem.bytes_per_parameter;
    for (int device = 0; device < static_cast<int>(c.pp); ++device) {
      PriceKey key = KeyOf(c, RecomputePolicy::kNone);
      key.per_byte = power(worth.per_byte * LeastInFlight(c, device).most);
      key.per_parameter = per_parameter;
      worth.least.push_back(prices_.LeastWorthOf(key, Policies()));
    }
    problem.worths.push_back(std::move(worth));
  }
  return FloorOf(c, problem);
}

Estimator::Floors Estimator::Floor(const Configuration& c) {
  {
    std::lock_guard lock(mutex_);
    auto found = floors_.find(c);
    if (found != floors_.end()) return found->second;
  }
  FloorProblem problem = FloorProblemOf(c);
  FloorProblem roomy = problem;
  roomy.limit = kForbidden;
  Floors out;
  out.roomy = FloorOf(c, roomy);
  out.floor = FloorOf(c, problem, out.roomy);
  std::lock_guard lock(mutex_);
  return floors_.try_emplace(c, out).first->second;
}

}  // namespace heddle
