#include "search/explore/configuration_list.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "base/log.h"
#include "base/parallel.h"

namespace heddle {
namespace {

bool AreAlikeInTime(const Configuration& a, Configuration b) {
  b.zero = a.zero;
  return a == b;
}

}  // namespace

void ConfigurationList::List(bool wide) {
  all_.clear();
  queue_ = {};
  task_.effort.Report("listing configurations");
  for (const Configuration& configuration : Enumerate(task_, wide)) {
    all_.push_back({configuration});
  }
  listed_ = all_.size();
  unbisected_ = {};
  // Configurations that differ only in ZeRO are adjacent and have the same floor without memory.
  std::vector<size_t> firsts;
  std::vector<size_t> other_prices;  // the first configuration with its axes and samples
  std::set<std::tuple<std::vector<int64_t>, int64_t, bool>> priced;
  for (size_t i = 0; i < all_.size(); ++i) {
    const Configuration& c = all_[i].configuration;
    if (i > 0 && AreAlikeInTime(all_[i - 1].configuration, c)) continue;
    firsts.push_back(i);
    if (priced.insert({c.axes, c.dp * c.microbatches, c.microbatches == 1}).second) {
      other_prices.push_back(i);
    }
  }
  InParallel(other_prices.size(), [&](size_t i) {
    if (!task_.effort.Over()) estimator_.Prepare(all_[other_prices[i]].configuration);
  });
  InParallel(firsts.size(), [&](size_t g) {
    if (task_.effort.Over()) return;
    double floor = estimator_.EvenTimeFloor(all_[firsts[g]].configuration);
    for (size_t i = firsts[g]; i < EndOfAlike(firsts[g]); ++i) {
      all_[i].floor = all_[i].floor_without_memory = floor;
    }
  });
  for (size_t first : firsts) {
    if (all_[first].floor < kForbidden) unbisected_.push({all_[first].floor, first});
  }
}

// The end of the configurations that differ from `first` only in ZeRO.
size_t ConfigurationList::EndOfAlike(size_t first) const {
  size_t i = first + 1;
  while (i < listed_ && AreAlikeInTime(all_[first].configuration, all_[i].configuration)) ++i;
  return i;
}

// Computes the floors without memory of some configurations, the lowest even floors first, and puts these in the queue.
void ConfigurationList::BisectSome(size_t most, double worst) {
  std::vector<size_t> batch;
  while (batch.size() < most && Least(unbisected_) < worst) {
    batch.push_back(unbisected_.top().second);
    unbisected_.pop();
  }
  std::vector<double> floors(batch.size());
  InParallel(batch.size(),
             [&](size_t b) { floors[b] = estimator_.TimeFloor(all_[batch[b]].configuration); });
  for (size_t b = 0; b < batch.size(); ++b) {
    for (size_t i = batch[b]; i < EndOfAlike(batch[b]); ++i) {
      all_[i].floor = all_[i].floor_without_memory = floors[b];
      if (floors[b] < kForbidden) queue_.push({floors[b], i});
    }
  }
}

std::vector<size_t> ConfigurationList::NextBatch(size_t most, double worst) {
  std::vector<size_t> batch;
  while (batch.size() < most) {
    if (Least(unbisected_) < worst && Least(unbisected_) <= Least(queue_)) {
      BisectSome(most / 2, worst);
      continue;
    }
    if (Least(queue_) >= worst) break;
    batch.push_back(queue_.top().second);
    queue_.pop();
  }
  return batch;
}

void ConfigurationList::PutBack(size_t i) {
  const WeighedConfiguration& at = all_[i];
  if (at.floor < kForbidden) queue_.push({std::max(at.floor, at.estimate_without_memory), i});
}

void ConfigurationList::AddOffloaded(size_t i) {
  const WeighedConfiguration& at = all_[i];
  bool binds = at.floor > at.floor_without_memory * (1 + 1e-9);
  bool short_of_memory = at.weighed && (!at.fits || !at.plain);
  if (at.offload_listed || !(binds || short_of_memory)) return;
  std::optional<Configuration> offloaded = Offloaded(task_, at.configuration);
  if (!offloaded) return;
  all_[i].offload_listed = true;
  WeighedConfiguration other{*offloaded, at.floor_without_memory, at.floor_without_memory};
  queue_.push({other.floor, all_.size()});
  all_.push_back(std::move(other));
}

LowestFloors ConfigurationList::FindLowestFloors(bool feasible) const {
  constexpr size_t kLooks = 192, kLogged = 25;
  std::vector<size_t> order(all_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return all_[a].floor < all_[b].floor; });
  LowestFloors lowest;
  lowest.feasible = feasible;
  for (size_t i = 0; i < std::min(kLooks, order.size()); ++i) {
    const WeighedConfiguration& at = all_[order[i]];
    lowest.close.push_back({at.floor, at.configuration});
    if (i < kLogged) LogDebug("floor {:.6g} s: {}", at.floor, ToString(at.configuration));
  }
  if (order.size() > kLooks) lowest.others = all_[order[kLooks]].floor;
  return lowest;
}

}  // namespace heddle
