#include "search/explore/estimate.h"

#include <algorithm>
#include <cmath>

#include "cluster/topology.h"
#include "search/explore/estimate_internal.h"
#include "search/explore/pipeline_step.h"
#include "search/prices/links.h"

namespace heddle {

Estimator::Estimator(const SearchProblem& problem, Prices& prices)
    : problem_(problem),
      prices_(prices),
      compute_(problem.cluster.device_types.front(),
               ConstantsFor(problem.cluster.device_types.front(), problem.sim,
                            DeviceCount(problem.cluster)),
               problem.sim.stack, prices.options().precision),
      units_(UnitsOf(prices.model())),
      limit_(static_cast<double>(MemoryLimit(problem))),
      least_kept_(LeastKept(problem.pruning, problem.model.graph)),
      counts_(CountModel(prices.model(), units_)),
      groups_(prices.model()) {}

bool Estimator::FreesMemory(const Configuration& c) const {
  constexpr double kConsiderable = 0.05;
  double held =
      counts_.parameters / static_cast<double>(c.inner() * c.pp * (c.zero > 0 ? c.dp : 1));
  HeldBytes each =
      HeldBytesOf(prices_.options().precision, kept(), c.zero, 1, false, Offload::kNone);
  return held * each.state >= kConsiderable * limit_;
}

Estimator::~Estimator() = default;

Estimate Estimator::Of(const Configuration& c, double limit) {
  bool free = !problem_.fixed.recompute;
  Estimate best = AtMemoryLevel(c, 0, !free, limit);
  for (int memory_level = free ? 0 : 1; memory_level < kMemoryLevels && !(best.fits && best.plain);
       ++memory_level) {
    Estimate estimate = AtMemoryLevel(c, memory_level, true, limit);
    bool better = estimate.fits != best.fits ? estimate.fits
                  : estimate.fits            ? estimate.seconds < best.seconds
                                             : best.bytes == 0 || estimate.bytes < best.bytes;
    if (better) best = std::move(estimate);
  }
  return best;
}

Estimate Estimator::CutAt(const Configuration& c, const Estimate& estimate,
                          const std::vector<int>& ends) {
  Estimate out;
  for (bool recompute : {problem_.fixed.recompute.has_value(), true}) {
    out = {};
    out.memory_level = estimate.memory_level;
    if (std::optional<Context> context = ContextOf(c, estimate.memory_level, recompute)) {
      Complete(*context, ends, out);
    }
    if (out.fits) break;
  }
  return out;
}

double Estimator::EstimateWithoutMemory(const Configuration& c, double limit) {
  bool fixed = problem_.fixed.recompute.has_value();
  double least = AtMemoryLevel(c, 0, fixed, 0).seconds;
  int blocks = static_cast<int>(prices_.model().blocks.size());
  // Strategies that ignore memory split few parameters, so their traffic on the data axis may
  // dominate.
  for (int memory_level = 1;
       memory_level < kMemoryLevels && c.dp > 1 && c.inner() > 1 && least >= limit;
       ++memory_level) {
    const Sums* sums =
        SumsOf(c, problem_.fixed.recompute.value_or(RecomputePolicy::kNone), memory_level);
    if (sums == nullptr) continue;
    // The busiest device works at least as long as the average device.
    double busy =
        static_cast<double>(c.microbatches) * sums->Seconds(0, blocks) / static_cast<double>(c.pp);
    if (busy * (1 - 1e-9) < least) {
      least = std::min(least, AtMemoryLevel(c, memory_level, fixed, 0).seconds);
    }
  }
  return least;
}

// Nothing where no strategies are known.
std::optional<Estimator::Context> Estimator::ContextOf(const Configuration& c, int memory_level,
                                                       bool recompute) {
  Context context;
  context.configuration = &c;
  for (const RecomputeDef& def : kRecomputePolicies) {
    RecomputePolicy policy = def.policy;
    if (problem_.fixed.recompute && policy != *problem_.fixed.recompute) continue;
    if (!recompute && policy != RecomputePolicy::kNone) continue;
    context.sums[static_cast<size_t>(policy)] = SumsOf(c, policy, memory_level);
    if (context.sums[static_cast<size_t>(policy)] == nullptr) return std::nullopt;
  }
  context.kept = SumsOf(c, RecomputePolicy::kNone, memory_level);
  if (context.kept == nullptr) return std::nullopt;
  context.schedule = FindSchedule(c.schedule);
  context.shape.devices = static_cast<int>(c.pp);
  context.shape.chunks = c.chunks;
  context.shape.microbatches = static_cast<int>(c.microbatches);
  if (c.pp > 1) context.shape.transfers = PipelineOf(c).Transfers(SentBytes(c));
  // Temporary buffers of the block at work: what its backward makes, and what is recomputed.
  context.transient = context.kept->most_activations + GatheredBytes(c, *context.kept);
  // Memory estimates can be a few percent too high. A plan that needs too much memory is fitted
  // later by what its program reserves (Refitted), whereas a plan left out here is lost. So the
  // limit is exceeded by a few percent.
  context.room = kMemoryOptimism * limit_ - context.transient;
  context.step = StepCostsOf(c, kept());
  return context;
}

Estimate Estimator::AtMemoryLevel(const Configuration& c, int memory_level, bool recompute,
                                  double limit) {
  Estimate out;
  out.memory_level = memory_level;
  std::optional<Context> context = ContextOf(c, memory_level, recompute);
  if (!context) return out;
  context->limit = limit;
  std::vector<int> ends = Cut(*context);
  Complete(*context, ends, out);
  // With few micro-batches the fill of the pipeline counts as well.
  constexpr int64_t kFewRounds = 4;
  if (c.pp == 1 || c.chunks > 1 || c.microbatches >= kFewRounds * c.pp) return out;
  context->counts_fill = true;
  std::vector<int> others = Cut(*context);
  if (others == ends) return out;
  Estimate other;
  other.memory_level = memory_level;
  Complete(*context, others, other);
  bool better = other.fits != out.fits ? other.fits : other.seconds < out.seconds;
  return better ? other : out;
}

std::optional<Estimate> Estimator::Refitted(const Configuration& c, const Estimate& estimate,
                                            const std::vector<double>& reserved) {
  if (estimate.device_bytes.size() != reserved.size()) return std::nullopt;
  std::vector<int> ends;
  for (const StageEstimate& stage : estimate.stages) ends.push_back(stage.last_block);
  std::optional<Estimate> best;
  // Strategies that need less memory may cost less time than recomputation. They are the only way
  // where the policy is fixed.
  for (int memory_level = estimate.memory_level; memory_level < kMemoryLevels; ++memory_level) {
    std::optional<Context> context = ContextOf(c, memory_level, true);
    if (!context) break;
    context->room = limit_ - context->transient;
    for (size_t d = 0; d < reserved.size(); ++d) {
      context->missing.push_back(reserved[d] - estimate.device_bytes[d]);
    }
    Estimate out;
    out.memory_level = memory_level;
    Complete(*context, ends, out);
    bool better = !best || (out.fits && (!best->fits || out.seconds < best->seconds));
    if (better) best = std::move(out);
    if (best->fits && best->plain) break;
  }
  return best;
}

// Computes everything but the strategies and the cut.
void Estimator::Complete(Context& context, const std::vector<int>& ends, Estimate& out) {
  const Configuration& c = *context.configuration;
  out.bytes_per_parameter = context.step.bytes.at_peak(true);
  context.shape.times.clear();
  out.stages.resize(ends.size());
  out.device_bytes.assign(static_cast<size_t>(c.pp), context.transient);
  out.fits = true;
  for (int d = 0; d < context.shape.devices; ++d) SetDevice(context, ends, d, out);
  for (StageEstimate& stage : out.stages) {
    SetPolicies(stage);
    out.fits = out.fits && stage.fits;
    for (RecomputePolicy policy : stage.recompute) {
      out.plain = out.plain && policy == RecomputePolicy::kNone;
    }
    context.shape.times.push_back(stage.times);
  }
  out.bytes = *std::max_element(out.device_bytes.begin(), out.device_bytes.end());
  out.fits = out.fits && HasHostRoom(context, out.stages);
  PipelineTime pipeline = c.pp == 1 ? PipelineTime{context.schedule->lower_bound(context.shape)}
                                    : PipelineSeconds(*context.schedule, context.shape,
                                                      PipelineOf(c), SentBytes(c), context.limit);
  out.by_links = pipeline.by_links;
  out.coarse = pipeline.coarse;
  auto seconds = [&](int64_t bucket_bytes) {
    return std::max(pipeline.seconds, ReducedEachSeconds(context, out, bucket_bytes)) +
           EndSeconds(context, out, bucket_bytes) + TiedSeconds(c) + context.step.statistics;
  };
  out.bucket_bytes = problem_.bucket_bytes;
  out.seconds = seconds(out.bucket_bytes);
  // Larger gradient buckets where latencies matter. Judging refines the size (bucket_sizes.h).
  constexpr double kWorthwhile = 0.99;
  constexpr int64_t kMost = int64_t{1} << 30;
  bool free = c.dp > 1 && c.zero < 3 && c.offload == Offload::kNone;
  for (int64_t larger = 4 * problem_.bucket_bytes; free && larger <= kMost; larger *= 4) {
    double with = seconds(larger);
    if (with >= kWorthwhile * out.seconds) continue;
    out.seconds = with;
    out.bucket_bytes = larger;
  }
}

}  // namespace heddle
