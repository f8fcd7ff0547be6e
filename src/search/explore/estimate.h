// How long a step of a configuration takes, by adding up: stages of whole layers, a policy of recomputation for each
// layer so that memory suffices, the bound of the schedule, what the end of a step adds.
//
//   Estimator estimator(problem, prices);
//   Estimate estimate = estimator.Of(configuration);     // estimate.fits, seconds, stages
#pragma once

#include <optional>
#include <vector>

#include "schedule/schedule.h"
#include "search/explore/configuration.h"
#include "search/explore/floor.h"
#include "search/explore/mix.h"
#include "search/prices/held_bytes.h"
#include "search/prices/links.h"
#include "search/prices/prices.h"
#include "search/prices/reductions.h"
#include "search/prices/statistics_cost.h"

namespace heddle {

constexpr int kMemoryLevels = 3;
// Estimates of memory may exceed what a device may use by this factor: they can be too high by as much.
constexpr double kMemoryOptimism = 1.06;

struct StageEstimate {
  int first_block = 0, last_block = 0;
  RecomputePolicy lax = RecomputePolicy::kNone, strict = RecomputePolicy::kNone;
  int64_t strict_layers = 0;  // the first of them; the others, and what is no layer, are lax
  std::vector<RecomputePolicy> recompute;  // per block
  HalfTimes times;
  bool fits = false;
  double bytes = 0;       // but for what is there for a moment
  double room = 0;        // what these may be
  double work = 0;        // seconds of a micro-batch, but for the host and gathered weights
  double parameters = 0;  // on a device
  double reduced = 0;  // seconds of a step for gradients reduced along other axes than that of data
};

struct Estimate {
  bool fits = false;
  double seconds = kForbidden;  // of a step
  double bytes = 0;             // of the device that needs most
  int memory_level = 0;         // which memory multiplier chose the strategies; 0: none
  bool plain = true;            // nothing is recomputed
  bool by_links = false;        // as PipelineTime says
  bool coarse = false;          // likewise
  double bytes_per_parameter = 0;
  int64_t bucket_bytes = 0;  // of gradients reduced together
  std::vector<StageEstimate> stages;
  std::vector<double> device_bytes;  // per device of the pipeline
};

class Estimator {
 public:
  Estimator(const SearchProblem& problem, Prices& prices);
  ~Estimator();

  // No step of the configuration is faster (floor.h); TimeFloor does not mind memory, and is cheap.
  double TimeFloor(const Configuration& configuration);
  // Cheaper, and not above TimeFloor.
  double EvenTimeFloor(const Configuration& configuration);
  // Finds what EvenTimeFloor takes most of its time for; configurations with the same axes and micro-batches share it.
  void Prepare(const Configuration& configuration);
  struct Floors {
    double floor = kForbidden;
    double without_memory = 0;  // the same, ignoring the memory limit
  };
  Floors Floor(const Configuration& configuration);
  // Closer, with time and memory taken together; dearer.
  double CloseFloor(const Configuration& configuration);

  // Above `limit` it may be too low, and is `coarse` then.
  Estimate Of(const Configuration& configuration, double limit = kForbidden);
  // With the strategies of `estimate`, and stages that end elsewhere (in blocks).
  Estimate CutAt(const Configuration& configuration, const Estimate& estimate,
                 const std::vector<int>& ends);
  // What Of hardly goes below: as if there were as much memory as one likes. Cheap. Where it is below the limit it may be
  // any number below that.
  double EstimateWithoutMemory(const Configuration& configuration, double limit);

  // The same stages, with as many layers recomputed, or strategies that mind memory as much more, as the bytes demand that
  // the lowered plan of `estimate` really reserved on each device of the pipeline. Nothing where that is not known.
  std::optional<Estimate> Refitted(const Configuration& configuration, const Estimate& estimate,
                                   const std::vector<double>& reserved);

  // Only for the test that raises terms of the bound (floor.h). Before the first floor is asked for.
  void SetTermScales(const TermScales& scales) { scales_ = scales; }

  // The strategies an estimate is made of.
  const Priced* PricedAs(const Configuration& configuration, RecomputePolicy recompute,
                         int memory_level);

  // Does the optimizer's state take a share of a device's memory worth speaking of?
  bool Relieves(const Configuration& offloaded) const;

 private:
  // The share of weights that is kept, of parameters that are pruned.
  double kept() const { return 1 - problem_.pruning.sparsity; }
  double LargestGroup(const Configuration& configuration) const;
  FloorProblem TimeProblemOf(const Configuration& configuration);
  FloorProblem TimeFloorProblemOf(Configuration& alike);
  FloorProblem FloorProblemOf(const Configuration& configuration);
  MemoryPrice MemoryPriceOf(const Configuration& configuration, const FloorProblem& problem,
                            double per_byte, double exact);
  std::vector<double> BreakEvenPrices(const Configuration& configuration);
  double BestPriceAround(const Configuration& configuration, const FloorProblem& problem,
                         double price);
  void SetLayerTraffic(const Configuration& configuration, double gather, FloorProblem& problem);
  void AddTrafficPrices(const Configuration& configuration, FloorProblem& problem);
  std::vector<RecomputePolicy> Policies() const;  // allowed ones, the fastest first
  HeldBytes BytesOf(const Configuration& configuration, double kept) const;
  PriceKey KeyOf(const Configuration& configuration, RecomputePolicy recompute) const;
  struct Sums;  // over blocks, from the first
  struct Context;
  const Sums* SumsOf(const Configuration& configuration, RecomputePolicy recompute,
                     int memory_level);
  Estimate AtMemoryLevel(const Configuration& configuration, int memory_level, bool recompute,
                         double limit);
  std::optional<Context> ContextOf(const Configuration& configuration, int memory_level,
                                   bool recompute);
  void Complete(Context& context, const std::vector<int>& ends, Estimate& out);
  void CountParameters();
  void CountCrossing();
  double LeastCrossing() const;
  double GatheredBytes(const Configuration& configuration, const Sums& sums) const;
  void SetEnd(Context& context, double kept);
  bool HasHostRoom(const Context& context, const std::vector<StageEstimate>& stages) const;
  struct Traffic {
    double reduce = 0, scatter = 0, gather = 0;                          // seconds per parameter
    double reduce_latency = 0, scatter_latency = 0, gather_latency = 0;  // seconds
    StatisticsCost statistics;
  };
  const Traffic& TrafficOf(const Configuration& configuration);
  std::vector<int> Cut(const Context& context) const;
  std::vector<int> CutInterleaved(const Context& context) const;
  struct Hop {
    double latency = 0, per_byte = 0;  // seconds; per byte that a device sends
  };
  Hop HopBetween(int64_t from, int64_t mesh) const;
  struct Links {
    double report = 0, transfer = 0;  // seconds
  };
  Links LinksOf(const Configuration& configuration);
  double SentBytes(const Configuration& configuration) const;
  const PipelineLinks& PipelineOf(const Configuration& configuration);
  double ReducedEachSeconds(const Context& context, const Estimate& estimate,
                            int64_t bucket_bytes) const;
  double GroupsPerParameter(const Configuration& configuration, int64_t bucket_bytes) const;
  double EndSeconds(const Context& context, const Estimate& estimate, int64_t bucket_bytes) const;
  double TiedSeconds(const Configuration& configuration) const;
  void SetDevice(const Context& context, const std::vector<int>& ends, int device,
                 Estimate& out) const;
  PerRecomputePolicy<PolicyCost> PolicyCosts(const Context& context, int stage, int first,
                                             int last) const;
  StageEstimate StageOf(const Context& context, int stage, int first, int last, double limit) const;
  StageEstimate StageUnder(const Context& context, int first, int last, const Mix& mix) const;
  void SetPolicies(StageEstimate& stage) const;
  double Linear(const Context& context, int stage, int first, int last) const;

  const SearchProblem& problem_;
  Prices& prices_;
  ComputeCost compute_;
  ModelUnits units_;
  double limit_ = 0;
  double least_kept_ = 1;  // share of the weights that is kept of the parameter that is pruned most
  double parameters_ = 0, largest_parameter_ = 0, largest_block_ = 0;  // elements
  std::vector<double> block_parameters_;  // elements that a block reads
  double loose_parameters_ = 0;           // of what is no layer
  double product_parameters_ = 0;         // of products in layers, read by these alone
  GradientGroups groups_;
  double gathered_layers_ = 0;  // that have parameters of their own
  double shared_layer_parameters_ =
      0;                             // elements in layers that other blocks read as well, per layer
  bool trains_loose_ = false;        // something that is no layer's is trained
  double head_tied_parameters_ = 0;  // elements that the last unit reads, and others
  double tied_parameters_ =
      0;                       // elements that blocks in the first half and in the second half read
  double crossing_bytes_ = 0;  // from a stage to the next, of the whole batch
  double least_crossing_bytes_ = 0;
  TermScales scales_;
  std::mutex mutex_;
  std::map<Configuration, double> time_floors_;
  std::map<Configuration, Floors> floors_;
  std::map<const Priced*, std::unique_ptr<Sums>> sums_;
  std::map<std::vector<int64_t>, Traffic> traffic_;  // by axes and dp
  std::map<int64_t, double> reports_;                // by devices
  std::map<std::pair<int64_t, int64_t>, Hop> hops_;  // by devices of a stage, and stages
  std::map<std::pair<int64_t, int64_t>, PipelineLinks> pipelines_;  // likewise
};

}  // namespace heddle
