// The floors of configurations (floor.h): what their problems are made of.
#include <algorithm>
#include <cmath>

#include "search/estimate_internal.h"

namespace heddle {

double Estimator::TimeFloor(const Configuration& c) {
  RecomputePolicy least = problem_.fixed.recompute.value_or(RecomputePolicy::kNone);
  FloorProblem problem;
  problem.times[static_cast<size_t>(least)] = prices_.LeastTimeOf(KeyOf(c, least));
  if (problem.times[static_cast<size_t>(least)] == nullptr) return kForbidden;
  problem.plain = prices_.LeastTimeOf(KeyOf(c, RecomputePolicy::kNone));
  problem.host = compute_.Host().total();
  problem.limit = kForbidden;
  return FloorOf(c, problem);
}

FloorProblem Estimator::FloorProblemOf(const Configuration& c) {
  FloorProblem problem;
  Context context;
  context.configuration = &c;
  double kept = LeastKept(problem_.pruning, problem_.model.graph);
  SetEnd(context, kept);
  const Precision& precision = prices_.options().precision;
  double gradient = kept * static_cast<double>(SizeOf(precision.gradients));
  // Of what comes from the host that of two groups may come before the last backward has ended.
  problem.update = std::max(context.update, context.host_copies);
  problem.early = 2 * context.host_copies * LargestGroup(c);
  problem.bytes_per_parameter = context.bytes_per_parameter;
  if (c.microbatches == 1) {  // gradients come as activations go
    problem.bytes_per_parameter -= c.zero == 0 ? gradient : gradient / static_cast<double>(c.dp);
  }
  problem.traffic =
      c.zero == 3 ? static_cast<double>(c.microbatches) * (2 * context.gather + context.reduce)
                  : context.reduce + context.gather;
  problem.plain = prices_.LeastTimeOf(KeyOf(c, RecomputePolicy::kNone));
  problem.host = compute_.Host().total();
  problem.limit = limit_;
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
  std::vector<RecomputePolicy> policies(kPolicies.begin(), kPolicies.end());
  if (problem_.fixed.recompute) policies = {*problem_.fixed.recompute};
  for (RecomputePolicy policy : policies) {
    size_t r = static_cast<size_t>(policy);
    problem.times[r] = prices_.LeastTimeOf(KeyOf(c, policy));
    problem.rooms[r] = prices_.LeastRoomOf(KeyOf(c, policy));
    if (problem.times[r] == nullptr || problem.rooms[r] == nullptr) return kForbidden;
  }
  double seconds = problem.times[static_cast<size_t>(policies[0])]->seconds.total();
  double around =
      seconds / static_cast<double>(c.pp) / limit_;  // a device's memory as all its work
  for (double level : {1.0 / 16, 0.25, 1.0, 4.0}) {
    // Powers of two, rounded down where that takes from what is counted.
    double per_parameter = power(level * around * problem.bytes_per_parameter);
    MemoryWorth worth;
    worth.per_byte = per_parameter / problem.bytes_per_parameter;
    for (int device = 0; device < static_cast<int>(c.pp); ++device) {
      LayerSums least;
      for (RecomputePolicy policy : policies) {
        PriceKey key = KeyOf(c, policy);
        key.per_byte = power(worth.per_byte * LeastInFlight(c, device) / c.chunks);
        key.per_parameter = per_parameter;
        const LayerSums* sums = prices_.LeastWorthOf(key);
        if (sums == nullptr) return 0;
        if (policy == policies[0]) least = *sums;
        least.before = std::min(least.before, sums->before);
        least.layers = std::min(least.layers, sums->layers);
        least.after = std::min(least.after, sums->after);
      }
      worth.least.push_back(least);
    }
    problem.worths.push_back(std::move(worth));
  }
  return FloorOf(c, problem);
}

Estimator::Floors Estimator::Floor(const Configuration& c) {
  FloorProblem problem = FloorProblemOf(c);
  // Recomputation only adds: it counts where memory does not suffice without.
  Floors out;
  for (RecomputePolicy policy : kPolicies) {
    if (problem_.fixed.recompute && policy != *problem_.fixed.recompute) continue;
    size_t r = static_cast<size_t>(policy);
    problem.times[r] = prices_.LeastTimeOf(KeyOf(c, policy));
    problem.rooms[r] = prices_.LeastRoomOf(KeyOf(c, policy));
    if (problem.times[r] == nullptr || problem.rooms[r] == nullptr) return {kForbidden, kForbidden};
    out.floor = FloorOf(c, problem);
    if (out.roomy == 0) {
      FloorProblem roomy = problem;
      roomy.limit = kForbidden;
      out.roomy = FloorOf(c, roomy);
    }
    if (out.floor <= out.roomy * (1 + 1e-9)) break;
  }
  return out;
}

}  // namespace heddle
