// Floors of configurations (floor.h): how Estimator fills in their problems.
#include <algorithm>
#include <cmath>
#include <set>

#include "search/explore/estimate_internal.h"
#include "search/prices/links.h"

namespace heddle {

std::vector<RecomputePolicy> Estimator::Policies() const {
  if (problem_.fixed.recompute) return {*problem_.fixed.recompute};
  // Recomputation only adds time, so the first policy is the fastest.
  std::vector<RecomputePolicy> all;
  for (const RecomputeDef& def : kRecomputePolicies) all.push_back(def.policy);
  return all;
}

FloorProblem Estimator::TimeProblemOf(const Configuration& c) {
  FloorProblem problem;
  problem.time = prices_.LeastTimeOf(KeyOf(c, Policies().front()));
  problem.plain = problem_.fixed.recompute ? prices_.LeastTimeOf(KeyOf(c, RecomputePolicy::kNone))
                                           : problem.time;
  problem.host = compute_.Host().total();
  problem.end.reduces_beside_backward = problem_.sim.stack.overlap_gradients;
  problem.scale = scales_;
  Links links = LinksOf(c);
  problem.transfer = links.transfer;
  problem.end.report = links.report;
  problem.units = units_;
  return problem;
}

namespace {

// Many configurations have the same floor without memory, because ZeRO, offload and most schedules
// do not affect it. Returns the one that stands for all of them.
Configuration AlikeInTime(const Configuration& c) {
  Configuration alike = c;
  alike.zero = 0;
  alike.offload = Offload::kNone;
  if (c.chunks == 1) alike.schedule = FindSchedule(c.schedule)->splits_backward ? "zb" : "1f1b";
  return alike;
}

}  // namespace

double Estimator::TimeFloor(const Configuration& c) {
  Configuration alike = AlikeInTime(c);
  {
    std::lock_guard lock(mutex_);
    auto found = time_floors_.find(alike);
    if (found != time_floors_.end()) return found->second;
  }
  double floor = FloorOf(alike, TimeFloorProblemOf(alike));
  std::lock_guard lock(mutex_);
  return time_floors_.try_emplace(alike, floor).first->second;
}

double Estimator::EvenTimeFloor(const Configuration& c) {
  Configuration alike = AlikeInTime(c);
  return EvenFloorOf(alike, TimeFloorProblemOf(alike));
}

void Estimator::Prepare(const Configuration& c) { TimeProblemOf(c); }

// What every way of sharing parameters and their state among data ranks has in common: the last
// gradients are reduce-scattered, and every rank updates its part.
FloorProblem Estimator::TimeFloorProblemOf(Configuration& alike) {
  FloorProblem problem = TimeProblemOf(alike);
  alike.zero = 1;
  StepCosts step = StepCostsOf(alike, least_kept_);
  problem.end.update = step.update;
  problem.traffic.per_parameter = problem.end.reduce = step.reduce;
  alike.zero = 0;
  problem.end.reduce_latency = step.reduce_latency;
  step = StepCostsOf(alike, least_kept_);
  problem.end.reduce_latency = std::min(problem.end.reduce_latency, step.reduce_latency);
  problem.statistics = step.exposed_statistics;
  return problem;
}

FloorProblem Estimator::FloorProblemOf(const Configuration& c) {
  FloorProblem problem = TimeProblemOf(c);
  double kept = least_kept_;
  StepCosts step = StepCostsOf(c, kept);
  // The copies of two parameter groups from the host may precede the end of the last backward.
  problem.end.update = step.update;
  problem.end.host_copies = step.host_copies;
  problem.end.host_lead = 2 * step.host_copies * LargestGroup(c);
  HeldBytes held = BytesOf(c, kept);
  problem.memory.per_parameter = held.weights + held.state;
  problem.memory.gradient = held.gradients;
  problem.memory.gathered = held.gathered;
  problem.memory.unreduced = held.unreduced;
  problem.memory.outside_layers = held.outside_layers;
  auto gradient = static_cast<double>(SizeOf(prices_.options().precision.gradients));
  problem.memory.tied = kept * gradient * counts_.tied_to_head / static_cast<double>(c.inner());
  problem.end.one_communicator = c.dp > 1 && (c.inner() == 1 || c.zero > 0);
  problem.memory.activations = prices_.LeastMemoryOf(KeyOf(c, RecomputePolicy::kNone), Policies());
  problem.memory.limit = limit_;
  problem.traffic.per_parameter = problem.end.reduce = step.reduce;
  problem.end.reduce_latency = step.reduce_latency;
  problem.end.gather_latency = step.gather_latency;
  problem.statistics = step.exposed_statistics;
  if (c.zero == 3) {
    // Parameters outside the layers stay whole.
    problem.traffic.per_layer_parameter =
        static_cast<double>(c.microbatches) * (2 * step.gather + step.reduce) -
        problem.traffic.per_parameter;
    SetLayerTraffic(c, step.gather, problem);
  } else {
    if (c.zero == 2) {
      problem.traffic.per_parameter = static_cast<double>(c.microbatches) * step.reduce;
      // With a split backward the first reduction may precede the peak of micro-batches in flight.
      problem.traffic.every_microbatch = !FindSchedule(c.schedule)->splits_backward;
    }
    problem.end.gather = step.gather;
  }
  return problem;
}

// ZeRO 3, one collective after the other: for every micro-batch each layer is gathered for forward
// and for backward and its gradients are scattered. With a split backward the weights of products
// are gathered again for W.
void Estimator::SetLayerTraffic(const Configuration& c, double gather, FloorProblem& problem) {
  if (c.dp == 1) return;
  const Traffic& traffic = TrafficOf(c);
  auto microbatches = static_cast<double>(c.microbatches);
  problem.layer_gather.known = counts_.layers_with_own == units_.layers();
  problem.layer_gather.per_parameter = gather;
  problem.layer_gather.shared = counts_.shared_with_layers;
  problem.layer_gather.latency = traffic.gather_latency;
  problem.end.gather_outside_layers = gather;
  problem.end.gather_latency = traffic.gather_latency;
  problem.traffic.forward_gathers = microbatches * gather;
  problem.traffic.forward_gather_seconds =
      microbatches * counts_.layers_with_own * traffic.gather_latency;
  problem.traffic.layer_seconds = microbatches * counts_.layers_with_own *
                                  (2 * traffic.gather_latency + traffic.scatter_latency);
  // Gradients of parameters outside the layers are reduced separately.
  if (counts_.trains_outside_layers) problem.traffic.layer_seconds += traffic.scatter_latency;
  if (FindSchedule(c.schedule)->splits_backward && c.pp > 1) {
    problem.traffic.layer_seconds +=
        microbatches * gather * counts_.products / static_cast<double>(c.inner());
  }
}

// The most elements of unsplit parameters that are updated together (program/parameter_groups.h).
double Estimator::LargestGroup(const Configuration& c) const {
  double bucket = static_cast<double>(problem_.bucket_bytes) /
                  static_cast<double>(SizeOf(prices_.options().precision.gradients));
  return c.zero == 3 ? std::max(counts_.largest_block, bucket + counts_.largest_parameter)
                     : bucket + counts_.largest_parameter;
}

// The prices of a kept byte, in seconds of a micro-batch, at which one recomputation policy
// replaces another. Layers are alike, so all of them change their policy at the same price, and the
// bound at any other price is much lower.
std::vector<double> Estimator::BreakEvenPrices(const Configuration& c) {
  constexpr int kMemoryLevel = 1;
  int blocks = static_cast<int>(prices_.model().blocks.size());
  std::vector<std::pair<double, double>> points;  // bytes and seconds of a micro-batch per policy
  for (RecomputePolicy policy : Policies()) {
    const Sums* sums = SumsOf(c, policy, kMemoryLevel);
    if (sums == nullptr) continue;
    points.push_back({Sums::Of(sums->activations, 0, blocks), sums->Seconds(0, blocks)});
  }
  std::vector<double> prices;
  for (size_t at = 0; at + 1 < points.size();) {
    size_t next = at;
    double least = kForbidden;
    for (size_t p = at + 1; p < points.size(); ++p) {
      double saved = points[at].first - points[p].first;
      double price = (points[p].second - points[at].second) / saved;
      if (saved <= 0 || price <= 0 || price >= least) continue;
      least = price;
      next = p;
    }
    if (next == at) break;
    prices.push_back(least);
    at = next;
  }
  return prices;
}

// The bound for a price of memory per micro-batch: each stage uses the strategies that are best for
// time and memory at this price. Prices are rounded so that configurations share results, except
// for stages with `exact` micro-batches in flight (0: all are rounded).
MemoryPrice Estimator::MemoryPriceOf(const Configuration& c, const FloorProblem& problem,
                                     double per_byte, double exact) {
  // Rounding down only lowers the bound.
  auto rounded = [](double x) { return x > 0 ? std::exp2(std::floor(2 * std::log2(x)) / 2) : 0; };
  auto state = [&](int device) {
    bool gradients = LeastInFlight(c, device).with_gradients;
    return problem.memory.per_parameter + (gradients ? problem.memory.gradient : 0);
  };
  int devices = static_cast<int>(c.pp);
  double most = state(devices - 1);  // few micro-batches in flight: gradients count at the peak
  MemoryPrice price;
  price.per_byte = exact > 0 ? per_byte : rounded(per_byte * most) / most;
  price.least.resize(static_cast<size_t>(c.stages()));
  for (int device = 0; device < devices; ++device) {
    PriceKey key = KeyOf(c, RecomputePolicy::kNone);
    key.per_parameter =
        state(device) == most ? price.per_byte * most : rounded(price.per_byte * state(device));
    std::vector<double> in_flight = LeastInFlightOfChunks(c, device);
    for (int k = 0; k < c.chunks; ++k) {
      double count = in_flight[static_cast<size_t>(k)];
      key.per_byte = count == exact ? price.per_byte * count : rounded(price.per_byte * count);
      price.least[static_cast<size_t>(k * devices + device)] =
          prices_.LeastPricedOf(key, Policies());
    }
  }
  return price;
}

// The price per byte that maximises the bound of one stage with all units, searched by golden
// section between half and twice the given price, because strategies change with the price as well.
// For configurations with one stage.
double Estimator::BestPriceAround(const Configuration& c, const FloorProblem& problem,
                                  double price) {
  constexpr double kGolden = 0.618, kExact = 1.0 / 64;  // in octaves
  auto price_at = [&](double octave) { return std::exp2(std::round(octave / kExact) * kExact); };
  auto bound = [&](double octave) {
    MemoryPrice price = MemoryPriceOf(c, problem, price_at(octave), 1);
    return price.least.front()->Of(0, units_.count()) - price.per_byte * problem.memory.limit;
  };
  double low = std::log2(price) - 1, high = std::log2(price) + 1;
  double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
  double of_left = bound(left), of_right = bound(right);
  while (high - low > 2 * kExact) {
    if (of_left >= of_right) {
      high = right;
      right = left;
      of_right = of_left;
      of_left = bound(left = high - kGolden * (high - low));
    } else {
      low = left;
      left = right;
      of_left = of_right;
      of_right = bound(right = low + kGolden * (high - low));
    }
  }
  return price_at(of_left >= of_right ? left : right);
}

double Estimator::CloseFloor(const Configuration& c) {
  FloorProblem problem = FloorProblemOf(c);
  problem.close = true;
  double around = problem.time->whole / static_cast<double>(c.pp) /
                  limit_;  // the price at which a device's memory costs all of its work
  for (double level : {1.0 / 16, 0.25, 1.0, 4.0}) {
    problem.memory_prices.push_back(MemoryPriceOf(c, problem, level * around, 0));
  }
  // The numbers of micro-batches in flight for which break-even prices are kept exact: those of the
  // first and the median chunk on the first and the last device.
  std::set<double> counts;
  for (int device : {0, static_cast<int>(c.pp) - 1}) {
    std::vector<double> in_flight = LeastInFlightOfChunks(c, device);
    for (double count : {in_flight.front(), in_flight[in_flight.size() / 2]}) {
      if (count > 0) counts.insert(count);
    }
  }
  for (double price : BreakEvenPrices(c)) {
    if (c.stages() == 1) price = BestPriceAround(c, problem, price);
    for (double count : counts) {
      problem.memory_prices.push_back(MemoryPriceOf(c, problem, price / count, count));
    }
  }
  AddTrafficPrices(c, problem);
  return FloorOf(c, problem);
}

// Strategies that split little are the fastest but hold the most parameters. These terms count the
// parameters' cost on the data axis and at the end of a step under the same strategies as the
// computation.
void Estimator::AddTrafficPrices(const Configuration& c, FloorProblem& problem) {
  PriceKey key = KeyOf(c, RecomputePolicy::kNone);
  auto microbatches = static_cast<double>(c.microbatches);
  key.per_parameter = std::max(problem.end.update, problem.end.gather) / microbatches;
  if (c.chunks == 1) problem.with_end = prices_.LeastPricedOf(key, Policies());
  double even = problem.time->whole / problem.plain->parameters.total();
  for (double level : {1.0 / 16, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0}) {
    key.per_parameter = std::exp2(std::floor(std::log2(level * even)));
    const RangeFloors* least = prices_.LeastPricedOf(key, Policies());
    // For all traffic, and for the traffic that follows a forward of all units.
    for (bool after_forward : {false, true}) {
      double of_layers = problem.traffic.per_layer_parameter -
                         (after_forward ? problem.traffic.forward_gathers : 0);
      double latency = problem.traffic.layer_seconds -
                       (after_forward ? problem.traffic.forward_gather_seconds : 0);
      double traffic = problem.traffic.per_parameter + of_layers;
      if (traffic <= 0 || (!after_forward && problem.traffic.forward_gathers == 0)) continue;
      double ratio = key.per_parameter * microbatches / traffic;
      TrafficPrice price;
      price.compute_weight = 1 / (1 + ratio);
      price.least = least;
      price.after_forward = after_forward;
      // Parameters outside the layers have less traffic.
      price.overcount = (1 - price.compute_weight) * (of_layers * counts_.outside_layers -
                                                      problem.scale.traffic.layers * latency);
      problem.traffic_prices.push_back(price);
    }
  }
}

Estimator::Floors Estimator::Floor(const Configuration& c) {
  {
    std::lock_guard lock(mutex_);
    auto found = floors_.find(c);
    if (found != floors_.end()) return found->second;
  }
  FloorProblem problem = FloorProblemOf(c);
  FloorProblem without_memory = problem;
  without_memory.memory.limit = kForbidden;
  Floors out;
  out.without_memory = FloorOf(c, without_memory);
  out.floor = FloorOf(c, problem, out.without_memory);
  std::lock_guard lock(mutex_);
  return floors_.try_emplace(c, out).first->second;
}

}  // namespace heddle
