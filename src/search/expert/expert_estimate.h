// Estimates of the expert's plans: the step time and memory at some degrees, added up from prices,
// and how many layers of each stage recompute so that it fits.
//
//   auto estimator = std::make_shared<ExpertEstimator>(problem);
//   ExpertEstimate at = estimator->Of(degrees, estimator->EndsOf(degrees));
//   std::optional<Proposal> plan = ProposeExpert(estimator, degrees, "expert");   // with recomputation by layer
//
// Takes some microseconds per stage once prices are known. Traffic is in expert_traffic.cc, proposals are made in
// expert_proposal.cc.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "cost/compute.h"
#include "schedule/schedule.h"
#include "search/expert/expert_prices.h"
#include "search/explore/mix.h"
#include "search/interface/proposal.h"
#include "search/prices/held_bytes.h"
#include "search/prices/links.h"
#include "search/prices/reductions.h"

namespace heddle {

// Recomputation of a stage: its first `strict_layers` layers have one policy, the rest another.
struct StageRecomputation {
  RecomputePolicy lax = RecomputePolicy::kNone, strict = RecomputePolicy::kNone;
  int64_t strict_layers = 0;
  bool none() const {
    return lax == RecomputePolicy::kNone &&
           (strict_layers == 0 || strict == RecomputePolicy::kNone);
  }
};

struct ExpertEstimate {
  bool known = false;  // false: the model does not allow the degrees
  bool fits = false;
  double seconds = kForbidden;    // of a step
  double bytes = 0;               // of the device that needs most
  bool by_links = false;          // as in PipelineTime
  int64_t bucket_bytes = 0;       // of a gradient bucket
  std::vector<double> by_device;  // bytes per device of the pipeline
  std::vector<StageRecomputation> stages;
};

class ExpertEstimator {
 public:
  // The problem must outlive it.
  explicit ExpertEstimator(const SearchProblem& problem);

  const SearchProblem& problem() const { return problem_; }
  ExpertPrices& prices() { return prices_; }

  // The last block of each stage. Empty: the model has too few blocks.
  std::vector<int> EndsOf(const Degrees& degrees);

  // A lower bound on the estimates at these degrees: computation and exposed traffic of all stages
  // without recomputation.
  double LeastSeconds(const Degrees& degrees);

  // Seconds that all devices together spend on one sample, without recomputation.
  double DeviceSeconds(const Degrees& degrees);

  // `beyond` are the bytes that each device of the pipeline needs beyond the estimate, as found by
  // lowering; empty: none. Estimates above `limit` seconds may be too low.
  ExpertEstimate Of(const Degrees& degrees, const std::vector<int>& ends,
                    const std::vector<double>& beyond = {}, double limit = kForbidden);

 private:
  struct Traffic {
    double reduce = 0, scatter = 0, gather = 0;                          // seconds per element
    double reduce_latency = 0, scatter_latency = 0, gather_latency = 0;  // seconds of a collective
  };
  struct Context;
  ExpertKey KeyOf(const Degrees& degrees) const;
  // Of dense and of expert parameters.
  std::pair<Traffic, Traffic> TrafficOf(const Degrees& degrees);
  double SentBytes(const Degrees& degrees) const;
  const PipelineLinks& PipelineOf(const Degrees& degrees);
  void CountCrossing();
  bool SetContext(Context& context, bool recompute);
  ExpertEstimate Under(const Degrees& degrees, const std::vector<int>& ends,
                       const std::vector<double>& beyond, bool recompute, double limit);
  PerRecomputePolicy<PolicyCost> DeviceCosts(const Context& context, int device) const;
  void SetRecomputation(const Context& context, int device, const Mix& mix,
                        std::vector<StageRecomputation>& stages) const;
  HalfTimes TimesOf(const Context& context, int stage, const StageRecomputation& at) const;
  double EndSeconds(const Context& context, const std::vector<HalfTimes>& times,
                    int64_t bucket_bytes);
  std::pair<double, double> GroupsPerElement(const Degrees& degrees, int64_t bucket_bytes) const;
  bool HasHostRoom(const Context& context) const;
  double TransientBytes(const Context& context) const;
  void FitMemory(const Context& context, const std::vector<double>& beyond,
                 ExpertEstimate& out) const;
  void AddMicrobatchTraffic(Context& context);

  const SearchProblem problem_;
  ExpertPrices prices_;
  ComputeCost compute_;
  double limit_ = 0;
  double crossing_bytes_ = 0;  // of the whole batch, from a stage to the next
  std::vector<double> flops_;  // per block
  GradientGroups groups_;
  std::mutex mutex_;
  // By pp and chunks, for free layers per stage.
  std::map<std::pair<int64_t, int>, std::vector<int>> ends_;
  std::map<std::vector<int64_t>, std::pair<Traffic, Traffic>> traffic_;
  std::map<std::pair<int64_t, int64_t>, PipelineLinks>
      pipelines_;  // by devices of a stage, and stages
};

// The expert's plan with the estimated recomputation for the stages as the plan cuts them. Its
// `refit` makes it fit the memory that its program reserves. Nothing where the model does not allow
// the degrees, or a parameter that must stay whole would be split.
std::optional<Proposal> ProposeExpert(std::shared_ptr<ExpertEstimator> estimator,
                                      const Degrees& degrees, std::string from);

// Does the plan split a parameter that must stay whole?
bool SplitsWhole(const SearchProblem& problem, const Plan& plan);

}  // namespace heddle
