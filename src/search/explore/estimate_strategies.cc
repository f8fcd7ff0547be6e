// The strategies that estimates use at each memory level, and their costs summed over the blocks.
#include <algorithm>
#include <cmath>

#include "search/explore/estimate_internal.h"

namespace heddle {

PriceKey Estimator::KeyOf(const Configuration& c, RecomputePolicy recompute) const {
  PriceKey key;
  key.axes = c.axes;
  int64_t batch = std::max<int64_t>(1, BatchSize(problem_.model));
  key.samples = batch / (c.dp * c.microbatches);
  key.microbatches = static_cast<double>(c.microbatches);
  key.recompute = recompute;
  return key;
}

// The price of a byte at a memory level: a device's whole memory costs 1/128 of a stage's work, a
// quarter of it, or four times. Prices are rounded to powers of two so that configurations share
// solutions.
const Priced* Estimator::PricedAs(const Configuration& c, RecomputePolicy recompute,
                                  int memory_level) {
  constexpr std::array<double, kMemoryLevels> kLevels = {1.0 / 128, 0.25, 4};
  PriceKey key = KeyOf(c, recompute);
  const LeastTime* least = prices_.LeastTimeOf(KeyOf(c, Policies().front()));
  auto power = [](double x) { return std::exp2(std::floor(std::log2(x))); };
  double stages = static_cast<double>(c.pp);
  double price = kLevels[static_cast<size_t>(memory_level)] * least->whole / stages / limit_;
  double in_flight =
      std::max(1.0, std::min<double>(stages, static_cast<double>(c.microbatches)) / 2);
  key.per_byte = power(price * in_flight);
  // No offload, so that offloaded configurations share the solutions.
  HeldBytes held = HeldBytesOf(prices_.options().precision, kept(), c.zero,
                               static_cast<double>(c.dp), c.microbatches == 1, Offload::kNone);
  key.per_parameter = power(price * held.at_end());
  return prices_.Of(key);
}

namespace {

// The number of groups in which a layer's parameters are gathered, given how many of their elements
// a device holds. Parameters that are split along other axes than the data axis are a group of
// their own.
double GatheredGroups(double held, double all, int64_t devices) {
  if (all == 0) return 0;
  constexpr double kAlmost = 1e-6;
  bool whole = held >= all * (1 - kAlmost);
  bool split = held * static_cast<double>(devices) <= all * (1 + kAlmost);
  return whole || split ? 1 : 2;
}

}  // namespace

const Estimator::Sums* Estimator::SumsOf(const Configuration& c, RecomputePolicy recompute,
                                         int memory_level) {
  const Priced* priced = PricedAs(c, recompute, memory_level);
  if (priced == nullptr) return nullptr;
  std::lock_guard lock(mutex_);
  std::unique_ptr<Sums>& sums = sums_[priced];
  if (sums) return sums.get();
  sums = std::make_unique<Sums>();
  ChoiceCost sum;
  double layers = 0, groups = 0;
  auto push = [&] {
    // Traffic between nodes is assigned to both directions in equal parts.
    double traffic = (sum.waited + sum.queued) / 2;
    sums->forward.push_back(sum.forward + traffic);
    sums->backward.push_back(sum.backward + traffic);
    sums->weight.push_back(sum.weight);
    sums->activations.push_back(sum.activations);
    sums->held.push_back(sum.held);
    sums->parameters.push_back(sum.parameters);
    sums->reduced.push_back(sum.step_queued);
    sums->layers.push_back(layers);
    sums->gathered_groups.push_back(groups);
  };
  push();
  for (size_t b = 0; b < priced->blocks.size(); ++b) {
    sum += priced->blocks[b];
    if (prices_.model().blocks[b].chain >= 0) {
      layers += 1;
      groups +=
          GatheredGroups(priced->blocks[b].parameters, counts_.block_parameters[b], c.inner());
    }
    sums->most_activations = std::max(sums->most_activations, priced->blocks[b].activations);
    sums->most_parameters = std::max(sums->most_parameters, priced->blocks[b].parameters);
    if (prices_.model().blocks[b].chain < 0) sums->outside_layers += priced->blocks[b].parameters;
    push();
  }
  return sums.get();
}

}  // namespace heddle
