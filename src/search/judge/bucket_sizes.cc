#include "search/judge/bucket_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "search/judge/judge.h"
#include "search/solver/problem.h"

namespace heddle {
namespace {

constexpr int64_t kMebibyte = 1 << 20;
constexpr int64_t kLeast = kMebibyte, kMost = 1024 * kMebibyte;

// ZeRO 3 reduces the gradients of each layer separately, and copies of optimizer state depend on
// the buckets.
bool HasBuckets(const Plan& plan) {
  bool split = std::any_of(plan.stages.begin(), plan.stages.end(),
                           [](const Stage& stage) { return !stage.mesh.axes.empty(); });
  return plan.zero.level < 3 && plan.offload == Offload::kNone && split;
}

Plan WithBuckets(Plan plan, int64_t bytes) {
  plan.bucket_bytes = bytes;
  return plan;
}

// The steps of judged plans by bucket size, and the best of these plans.
struct Sizes {
  std::map<int64_t, double> steps;  // kForbidden: does not fit
  const JudgedPlan* best = nullptr;

  bool Has(int64_t bytes) const {
    return bytes < kLeast || bytes > kMost || steps.count(bytes) > 0;
  }
  // Does the step depend on the size, as far as is known?
  bool Matters() const {
    constexpr double kMatters = 0.01;
    double longest = best->result.step_seconds;
    for (const auto& [bytes, step] : steps) longest = std::max(longest, step);
    return longest > (1 + kMatters) * best->result.step_seconds;
  }
};

Sizes SizesOf(const Plan& root, const std::vector<JudgedPlan>& judged) {
  Sizes sizes;
  for (const JudgedPlan& at : judged) {
    if (!DifferInBucketsAlone(root, at.plan)) continue;
    sizes.steps[at.plan.bucket_bytes] = at.fits ? at.result.step_seconds : kForbidden;
    if (at.fits && (sizes.best == nullptr || Better(at, *sizes.best))) sizes.best = &at;
  }
  return sizes;
}

Proposal WithSize(const JudgedPlan& best, int64_t bytes) {
  Proposal out;
  out.plan = WithBuckets(best.plan, bytes);
  out.from = best.from.substr(0, best.from.find(", buckets of "));
  out.from += BucketsInWords(bytes);
  out.bound = best.bound;
  out.factors = best.factors;
  out.kind = best.kind;
  return out;
}

}  // namespace

std::string BucketsInWords(int64_t bytes) {
  return fmt::format(", buckets of {} MiB", bytes / kMebibyte);
}

bool DifferInBucketsAlone(const Plan& a, const Plan& b) {
  return WithBuckets(a, b.bucket_bytes) == b;
}

void BucketSizes::ChoosePlans(const std::vector<JudgedPlan>& judged, double best_seconds) {
  constexpr size_t kMostPlans = 8;
  constexpr double kLeastWait = 0.02;  // the least share of the step that waits for communication
  constexpr double kMostOfOne = kQuickWork / 20;  // long steps hardly depend on the bucket size
  std::vector<std::pair<double, const JudgedPlan*>> order;  // by the step without waiting
  for (const JudgedPlan& at : judged) {
    double waits = at.result.exposed_communication;
    double least = (1 - waits) * at.result.step_seconds;
    bool candidate = at.simulated && at.fits && HasBuckets(at.plan) && waits >= kLeastWait &&
                     SimulationSize(task_, at.plan) < kMostOfOne;
    // Plans with equal steps are equivalent, such as ZeRO 1 and ZeRO 2 with one micro-batch.
    bool known = std::any_of(order.begin(), order.end(), [&](const auto& other) {
      return other.second->result.step_seconds == at.result.step_seconds;
    });
    if (candidate && !known && least < best_seconds) order.push_back({least, &at});
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [least, at] : order) {
    if (plans_.size() < kMostPlans) plans_.push_back(at->plan);
  }
}

std::vector<Proposal> BucketSizes::Next(const std::vector<JudgedPlan>& judged,
                                        double best_seconds) {
  constexpr int kRounds = 8;
  if (rounds_ == 0) ChoosePlans(judged, best_seconds);
  if (rounds_++ == kRounds) return {};
  std::vector<Proposal> proposals;
  for (const Plan& plan : plans_) {
    Sizes sizes = SizesOf(plan, judged);
    if (sizes.best == nullptr) continue;
    int64_t now = sizes.best->plan.bucket_bytes;
    // First sizes four times larger and smaller; then twice and half of the best of these.
    bool coarse = !(sizes.Has(4 * now) && sizes.Has(now / 4));
    if (!coarse && !sizes.Matters()) continue;
    int64_t factor = coarse ? 4 : 2;
    for (int64_t bytes : {factor * now, now / factor}) {
      if (!sizes.Has(bytes)) proposals.push_back(WithSize(*sizes.best, bytes));
    }
  }
  return proposals;
}

}  // namespace heddle
