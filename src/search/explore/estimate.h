// Estimates: the step time of a configuration, added up from prices instead of simulated. Stages
// consist of whole layers, each layer gets a recomputation policy so that memory suffices, the
// schedule bounds the pipeline's time, and the end of the step is added.
//
//   Estimator estimator(problem, prices);
//   Estimate estimate = estimator.Of(configuration);     // estimate.fits, seconds, stages
//
// The implementation by topic: estimate.cc puts estimates together; estimate_strategies.cc finds
// strategies and sums them over blocks; estimate_cut.cc decides where stages end;
// estimate_memory.cc gives each layer a recomputation policy; estimate_traffic.cc has messages,
// collectives and the end of the step; estimate_floors.cc the floors.
#pragma once

#include <optional>
#include <vector>

#include "schedule/schedule.h"
#include "search/explore/configuration.h"
#include "search/explore/floor.h"
#include "search/explore/mix.h"
#include "search/explore/model_counts.h"
#include "search/prices/held_bytes.h"
#include "search/prices/links.h"
#include "search/prices/prices.h"
#include "search/prices/reductions.h"
#include "search/prices/statistics_cost.h"

namespace heddle {

constexpr int kMemoryLevels = 3;
// Memory estimates can be a few percent too high, so an estimate may exceed the memory limit by
// this factor.
constexpr double kMemoryOptimism = 1.06;

struct StageEstimate {
  int first_block = 0, last_block = 0;
  RecomputePolicy lax = RecomputePolicy::kNone, strict = RecomputePolicy::kNone;
  // The first strict_layers layers have the strict policy. The others, and blocks that are no
  // layer, have the lax one.
  int64_t strict_layers = 0;
  std::vector<RecomputePolicy> recompute;  // per block
  HalfTimes times;
  bool fits = false;
  double bytes = 0;       // without short-lived buffers
  double room = 0;        // the limit on `bytes`
  double work = 0;        // seconds of a micro-batch without the host and gathered weights
  double parameters = 0;  // elements on a device
  // Seconds of a step for gradients that are reduced along other axes than the data axis.
  double reduced = 0;
};

struct Estimate {
  bool fits = false;
  double seconds = kForbidden;  // of a step
  double bytes = 0;             // of the device that needs most
  int memory_level = 0;         // which memory multiplier chose the strategies; 0: none
  bool plain = true;            // nothing is recomputed
  // Both as in PipelineTime.
  bool by_links = false;
  bool coarse = false;
  double bytes_per_parameter = 0;
  int64_t bucket_bytes = 0;  // of a gradient bucket
  std::vector<StageEstimate> stages;
  std::vector<double> device_bytes;  // per device of the pipeline
};

class Estimator {
 public:
  Estimator(const SearchProblem& problem, Prices& prices);
  ~Estimator();

  // Lower bounds on the step (floor.h). TimeFloor ignores memory and is cheap.
  double TimeFloor(const Configuration& configuration);
  // Cheaper than TimeFloor and never above it.
  double EvenTimeFloor(const Configuration& configuration);
  // Solves what EvenTimeFloor needs most time for. Configurations with the same axes and
  // micro-batches share the result.
  void Prepare(const Configuration& configuration);
  struct Floors {
    double floor = kForbidden;
    double without_memory = 0;  // the floor ignoring the memory limit
  };
  Floors Floor(const Configuration& configuration);
  // A higher and more expensive floor, which counts time and memory under the same strategies.
  double CloseFloor(const Configuration& configuration);

  // The estimate may be too low where it is above `limit` seconds; it is then marked `coarse`.
  Estimate Of(const Configuration& configuration, double limit = kForbidden);
  // The estimate with the strategies of `estimate`, and stages that end at these blocks.
  Estimate CutAt(const Configuration& configuration, const Estimate& estimate,
                 const std::vector<int>& ends);
  // The estimate without a memory limit: Of is hardly ever below it. Cheap. Where the result is
  // below `limit` it may be any number below `limit`.
  double EstimateWithoutMemory(const Configuration& configuration, double limit);

  // Repairs an estimate whose lowered plan reserved these bytes on each device of the pipeline: the
  // same stages, with more or fewer layers recomputed or strategies that need less memory, so that
  // the devices just fit. Nothing where the reserved bytes do not match the estimate's devices.
  std::optional<Estimate> Refitted(const Configuration& configuration, const Estimate& estimate,
                                   const std::vector<double>& reserved);

  // For the test that raises terms of the bound (floor.h). Call it before the first floor.
  void SetTermScales(const TermScales& scales) { scales_ = scales; }

  // The strategies that an estimate uses.
  const Priced* PricedAs(const Configuration& configuration, RecomputePolicy recompute,
                         int memory_level);

  // Does offloading the optimizer state free a considerable share of a device's memory?
  bool FreesMemory(const Configuration& offloaded) const;

 private:
  // The share of its weights that a pruned parameter keeps.
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
  std::vector<RecomputePolicy> Policies() const;  // the allowed policies, fastest first
  HeldBytes BytesOf(const Configuration& configuration, double kept) const;
  PriceKey KeyOf(const Configuration& configuration, RecomputePolicy recompute) const;
  struct Sums;  // sums over blocks, by the first block
  struct Context;
  struct StepCosts;
  const Sums* SumsOf(const Configuration& configuration, RecomputePolicy recompute,
                     int memory_level);
  Estimate AtMemoryLevel(const Configuration& configuration, int memory_level, bool recompute,
                         double limit);
  std::optional<Context> ContextOf(const Configuration& configuration, int memory_level,
                                   bool recompute);
  void Complete(Context& context, const std::vector<int>& ends, Estimate& out);
  double GatheredBytes(const Configuration& configuration, const Sums& sums) const;
  StepCosts StepCostsOf(const Configuration& configuration, double kept);
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
    double latency = 0, per_byte = 0;  // seconds; seconds per byte that a device sends
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
  double StageSeconds(const Context& context, int stage, int first, int last) const;
  bool FillStages(const Context& context, double bound, std::vector<int>& ends) const;
  double SlowestSeconds(const Context& context, const std::vector<int>& ends) const;

  const SearchProblem& problem_;
  Prices& prices_;
  ComputeCost compute_;
  ModelUnits units_;
  double limit_ = 0;
  double least_kept_ = 1;  // the kept share of the weights of the parameter that is pruned most
  ModelCounts counts_;
  GradientGroups groups_;
  TermScales scales_;
  std::mutex mutex_;
  std::map<Configuration, double> time_floors_;
  std::map<Configuration, Floors> floors_;
  std::map<const Priced*, std::unique_ptr<Sums>> sums_;
  std::map<std::vector<int64_t>, Traffic> traffic_;  // by axes and dp
  std::map<int64_t, double> reports_;                // by number of devices
  std::map<std::pair<int64_t, int64_t>, Hop> hops_;  // by devices of a stage, and stages
  std::map<std::pair<int64_t, int64_t>, PipelineLinks> pipelines_;  // by the same
};

}  // namespace heddle
