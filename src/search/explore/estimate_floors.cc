// The floors of configurations (floor.h): what their problems are made of.
#include <algorithm>
#include <cmath>
#include <set>

#include "search/explore/estimate_internal.h"
#include "search/prices/links.h"

namespace heddle {

std::vector<RecomputePolicy> Estimator::Policies() const {
  if (problem_.fixed.recompute) return {*problem_.fixed.recompute};
  std::vector<RecomputePolicy> all;  // the first takes least time: recomputing only adds
  for (const RecomputeDef& def : kRecomputePolicies) all.push_back(def.policy);
  return all;
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

namespace {

// The configuration whose floor without memory is that of many: ZeRO, offload and most schedules do not change it.
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

// What all ways to share parameters and their state among data ranks have in common: the last gradients are scattered,
// and every rank updates its part.
FloorProblem Estimator::TimeFloorProblemOf(Configuration& alike) {
  FloorProblem problem = TimeProblemOf(alike);
  Context context;
  alike.zero = 1;
  context.configuration = &alike;
  SetEnd(context, least_kept_);
  problem.update = context.update;
  problem.traffic = problem.reduce = context.reduce;
  alike.zero = 0;
  problem.reduce_latency = context.reduce_latency;
  SetEnd(context, least_kept_);
  problem.reduce_latency = std::min(problem.reduce_latency, context.reduce_latency);
  problem.statistics = context.exposed_statistics;
  return problem;
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
  double kept = least_kept_;
  SetEnd(context, kept);
  // Of what comes from the host that of two groups may come before the last backward has ended.
  problem.update = context.update;
  problem.host_update = context.host_copies;
  problem.early = 2 * context.host_copies * LargestGroup(c);
  HeldBytes held = BytesOf(c, kept);
  problem.bytes_per_parameter = held.weights + held.state;
  problem.gradient_bytes = held.gradients;
  problem.gathered_bytes = held.gathered;
  problem.unreduced_bytes = held.unreduced;
  problem.loose_bytes = held.loose;
  auto gradient = static_cast<double>(SizeOf(prices_.options().precision.gradients));
  problem.tied_bytes = kept * gradient * head_tied_parameters_ / static_cast<double>(c.inner());
  problem.reduces_in_line = c.dp > 1 && (c.inner() == 1 || c.zero > 0);
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
    SetLayerTraffic(c, context.gather, problem);
  } else {
    if (c.zero == 2) {
      problem.traffic = static_cast<double>(c.microbatches) * context.reduce;
      // Where W comes apart, the first may come before as many micro-batches are in flight as ever.
      problem.reduces_each = !FindSchedule(c.schedule)->splits_backward;
    }
    problem.gather = context.gather;
  }
  return problem;
}

// ZeRO 3, one collective after the other: every layer is gathered forward and backward and its gradients are scattered, for
// every micro-batch; products are gathered once more for W where that comes apart.
void Estimator::SetLayerTraffic(const Configuration& c, double gather, FloorProblem& problem) {
  if (c.dp == 1) return;
  const Traffic& traffic = TrafficOf(c);
  auto microbatches = static_cast<double>(c.microbatches);
  problem.gathers_layers = gathered_layers_ == units_.layers();
  problem.layer_gather = gather;
  problem.shared = shared_layer_parameters_;
  problem.layer_gather_latency = traffic.gather_latency;
  problem.loose_gather = gather;
  problem.gather_latency = traffic.gather_latency;
  problem.first_gathers = microbatches * gather;
  problem.first_latency = microbatches * gathered_layers_ * traffic.gather_latency;
  problem.layer_seconds =
      microbatches * gathered_layers_ * (2 * traffic.gather_latency + traffic.scatter_latency);
  // What is no layer's is reduced apart.
  if (trains_loose_) problem.layer_seconds += traffic.scatter_latency;
  if (FindSchedule(c.schedule)->splits_backward && c.pp > 1) {
    problem.layer_seconds +=
        microbatches * gather * product_parameters_ / static_cast<double>(c.inner());
  }
}

// Elements, at most, of parameters that are updated together (program/parameter_groups.h), were nothing split.
double Estimator::LargestGroup(const Configuration& c) const {
  double bucket = static_cast<double>(problem_.bucket_bytes) /
                  static_cast<double>(SizeOf(prices_.options().precision.gradients));
  return c.zero == 3 ? std::max(largest_block_, bucket + largest_parameter_)
                     : bucket + largest_parameter_;
}

// The prices of a byte that a micro-batch keeps, in seconds of one, at which one policy of recomputation takes the place of
// another: layers are alike, so that all of them change at the same price, and bounds at other prices are far lower.
std::vector<double> Estimator::BreakEvenPrices(const Configuration& c) {
  constexpr int kThrift = 1;
  int blocks = static_cast<int>(prices_.model().blocks.size());
  std::vector<std::pair<double, double>> points;  // bytes and seconds of a micro-batch, by policy
  for (RecomputePolicy policy : Policies()) {
    const Sums* sums = SumsOf(c, policy, kThrift);
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

// What a byte of memory is worth, per micro-batch: a stage's strategies are then those for time and memory together.
// `exact`: the price is kept as it is for stages with so many micro-batches in flight; 0: for none.
MemoryPrice Estimator::MemoryPriceOf(const Configuration& c, const FloorProblem& problem,
                                     double per_byte, double exact) {
  // Rounded down, which takes from what is counted: prices of like configurations are then the same.
  auto rounded = [](double x) { return x > 0 ? std::exp2(std::floor(2 * std::log2(x)) / 2) : 0; };
  auto state = [&](int device) {
    bool gradients = LeastInFlight(c, device).with_gradients;
    return problem.bytes_per_parameter + (gradients ? problem.gradient_bytes : 0);
  };
  int devices = static_cast<int>(c.pp);
  double most =
      state(devices - 1);  // gradients come first where fewest micro-batches are in flight
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

// The price at which a stage of all units takes longest, its memory together with its time, between half of this price and
// twice as much, by golden section: strategies change with the price as well. For configurations with one stage.
double Estimator::BestPriceAround(const Configuration& c, const FloorProblem& problem,
                                  double price) {
  constexpr double kGolden = 0.618, kExact = 1.0 / 64;  // octaves
  auto price_at = [&](double octave) { return std::exp2(std::round(octave / kExact) * kExact); };
  auto bound = [&](double octave) {
    MemoryPrice price = MemoryPriceOf(c, problem, price_at(octave), 1);
    return price.least.front()->Of(0, units_.count()) - price.per_byte * problem.limit;
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
                  limit_;  // a device's memory as all its work
  for (double level : {1.0 / 16, 0.25, 1.0, 4.0}) {
    problem.memory_prices.push_back(MemoryPriceOf(c, problem, level * around, 0));
  }
  // Of the chunks with most micro-batches in flight, and with as many as most have, on the first device and the last.
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

// Strategies that split little take least time, and hold most parameters: what these cost at the end of a step and over the
// data axis is that of the same strategies.
void Estimator::AddTrafficPrices(const Configuration& c, FloorProblem& problem) {
  PriceKey key = KeyOf(c, RecomputePolicy::kNone);
  auto microbatches = static_cast<double>(c.microbatches);
  key.per_parameter = std::max(problem.update, problem.gather) / microbatches;
  if (c.chunks == 1) problem.ended = prices_.LeastPricedOf(key, Policies());
  double even = problem.time->whole / problem.plain->parameters.total();
  for (double level : {1.0 / 16, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0}) {
    key.per_parameter = std::exp2(std::floor(std::log2(level * even)));
    const RangeFloors* least = prices_.LeastPricedOf(key, Policies());
    // All of the traffic; and what of it a forward of all units comes before.
    for (bool after_forward : {false, true}) {
      double of_layers = problem.layer_traffic - (after_forward ? problem.first_gathers : 0);
      double latency = problem.layer_seconds - (after_forward ? problem.first_latency : 0);
      double traffic = problem.traffic + of_layers;
      if (traffic <= 0 || (!after_forward && problem.first_gathers == 0)) continue;
      double ratio = key.per_parameter * microbatches / traffic;
      TrafficPrice price;
      price.own = 1 / (1 + ratio);
      price.least = least;
      price.after_forward = after_forward;
      // Of what is no layer less passes.
      price.apart =
          (1 - price.own) * (of_layers * loose_parameters_ - problem.scale.layers * latency);
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
  without_memory.limit = kForbidden;
  Floors out;
  out.without_memory = FloorOf(c, without_memory);
  out.floor = FloorOf(c, problem, out.without_memory);
  std::lock_guard lock(mutex_);
  return floors_.try_emplace(c, out).first->second;
}

}  // namespace heddle
