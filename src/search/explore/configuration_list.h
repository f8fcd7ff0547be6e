// The configurations of a search in the order in which they are weighed.
//
//   ConfigurationList list(task, estimator);
//   list.List(/*wide=*/false);
//   for (size_t i : list.NextBatch(most, worst)) ...        // list.at(i): the lowest floors first
//
// Floors become closer step by step, because most configurations are never low enough for more: the even floor of all
// (EvenTimeFloor), the floor without memory of those that are next (TimeFloor), and what weighing finds.
#pragma once

#include <queue>
#include <utility>
#include <vector>

#include "search/explore/close_bound.h"
#include "search/explore/estimate.h"
#include "search/interface/search_effort.h"

namespace heddle {

// A configuration and what is known of it so far.
struct WeighedConfiguration {
  Configuration configuration;
  double floor = 0;
  double floor_without_memory = 0;
  bool floored = false;                // `floor` counts memory
  double estimate_without_memory = 0;  // EstimateWithoutMemory; 0: not known
  bool weighed = false;                // the estimate is known, or not worth making
  bool offload_listed = false;         // the same with optimizer offload is in the list
  // From the estimate; its stages are found again when a plan is made.
  bool fits = false, plain = true, by_links = false, coarse = false, recut = false;
  double seconds = kForbidden, bytes = 0;
  int64_t bucket_bytes = 0;
  bool proposed = false;
};

class ConfigurationList {
 public:
  // Both must outlive it.
  ConfigurationList(const SearchTask& task, Estimator& estimator)
      : task_(task), estimator_(estimator) {}

  // Lists all configurations and computes their even floors. `wide`: as Enumerate has it.
  void List(bool wide);

  size_t size() const { return all_.size(); }
  WeighedConfiguration& at(size_t i) { return all_[i]; }
  const WeighedConfiguration& at(size_t i) const { return all_[i]; }

  // The lowest floor of the configurations that are not weighed.
  double LeastFloor() const { return std::min(Least(queue_), Least(unbisected_)); }
  // Takes the configurations with the lowest floors, at most `most` of them, if these are below `worst`.
  std::vector<size_t> NextBatch(size_t most, double worst);
  // Puts a configuration back that was not weighed.
  void PutBack(size_t i);
  // Adds the same configuration with optimizer offload where memory limits it. Otherwise offload only costs time.
  void AddOffloaded(size_t i);

  // `feasible`: some configuration is estimated to fit.
  LowestFloors FindLowestFloors(bool feasible) const;

 private:
  using Entry = std::pair<double, size_t>;  // floor, index
  using Queue = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

  static double Least(const Queue& queue) { return queue.empty() ? kForbidden : queue.top().first; }
  size_t EndOfAlike(size_t first) const;
  void BisectSome(size_t most, double worst);

  const SearchTask& task_;
  Estimator& estimator_;
  std::vector<WeighedConfiguration> all_;
  size_t listed_ = 0;  // number of enumerated configurations; offloaded ones follow
  // Floors of configurations that are not weighed yet, the lowest first.
  Queue queue_;
  // The same for configurations of which only EvenTimeFloor is known. Of configurations that differ
  // only in ZeRO it has the first.
  Queue unbisected_;
};

}  // namespace heddle
