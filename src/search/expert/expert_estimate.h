// How long a step of the expert's plan at some degrees takes and what it needs of memory, by adding up; and how many
// layers of each stage recompute so that it fits.
//
//   auto estimator = std::make_shared<ExpertEstimator>(problem);
//   ExpertEstimate at = estimator->Of(degrees, estimator->EndsOf(degrees));
//   std::optional<Proposal> plan = ProposeExpert(estimator, degrees, "expert");   // with recomputation by layer
//
// Some microseconds for each stage once prices are known.
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

// What layers of a stage do: `strict_layers` of them, the first ones, under one policy, the rest under another.
struct StageRecomputation {
  RecomputePolicy lax = RecomputePolicy::kNone, strict = RecomputePolicy::kNone;
  int64_t strict_layers = 0;
  bool none() const {
    return lax == RecomputePolicy::kNone &&
           (strict_layers == 0 || strict == RecomputePolicy::kNone);
  }
};

struct ExpertEstimate {
  bool known = false;  // false: the degrees are not for this model
  bool fits = false;
  double seconds = kForbidden;    // of a step
  double bytes = 0;               // of the device that needs most
  bool by_links = false;          // as PipelineTime says
  int64_t bucket_bytes = 0;       // of gradients reduced together
  std::vector<double> by_device;  // the same of each device of the pipeline
  std::vector<StageRecomputation> stages;
};

class ExpertEstimator {
 public:
  // The problem must outlive it.
  explicit ExpertEstimator(const SearchProblem& problem);

  const SearchProblem& problem() const { return problem_; }
  ExpertPrices& prices() { return prices_; }

  // Where stages of these degrees end, in blocks. Empty: the model has too few.
  std::vector<int> EndsOf(const Degrees& degrees);

  // No step at these degrees is estimated below: computation and waited-for traffic of all stages, nothing recomputed.
  double LeastSeconds(const Degrees& degrees);

  // Seconds that all devices together spend on a sample of a micro-batch, nothing recomputed.
  double DeviceSeconds(const Degrees& degrees);

  // `beyond` is what each device of the pipeline needs beyond the estimate, as was found by lowering; empty: nothing. Seconds
  // above `limit` may be too low.
  ExpertEstimate Of(const Degrees& degrees, const std::vector<int>& ends,
                    const std::vector<double>& beyond = {}, double limit = kForbidden);

 private:
  struct Traffic {
    double reduce = 0, scatter = 0, gather = 0;                          // seconds per element
    double reduce_latency = 0, scatter_latency = 0, gather_latency = 0;  // of a collective
  };
  struct Context;
  ExpertKey KeyOf(const Degrees& degrees) const;
  std::pair<Traffic, Traffic> TrafficOf(const Degrees& degrees);  // of dense and of spread ones
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

  const SearchProblem problem_;
  ExpertPrices prices_;
  ComputeCost compute_;
  double limit_ = 0;
  double crossing_bytes_ = 0;  // from a stage to the next, of the whole batch
  std::vector<double> flops_;  // per block
  GradientGroups groups_;
  std::mutex mutex_;
  std::map<std::pair<int64_t, int>, std::vector<int>> ends_;  // by pp and chunks, of free layers
  std::map<std::vector<int64_t>, std::pair<Traffic, Traffic>> traffic_;
  std::map<std::pair<int64_t, int64_t>, PipelineLinks>
      pipelines_;  // by devices of a stage, and stages
};

// The expert's plan with as much recomputation as the estimate says, which is for the stages as the plan cuts them; its
// `refit` makes it fit what its program reserves. Nothing where the degrees are not for this model, or split what is to be
// whole.
std::optional<Proposal> ProposeExpert(std::shared_ptr<ExpertEstimator> estimator,
                                      const Degrees& degrees, std::string from);

// Whether the plan splits a parameter that is to stay whole.
bool SplitsWhole(const SearchProblem& problem, const Plan& plan);

}  // namespace heddle
