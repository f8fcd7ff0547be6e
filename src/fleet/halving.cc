#include "fleet/halving.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace heddle {

Halving::Halving(const HalvingRule& rule, std::vector<int64_t> steps)
    : rule_(rule),
      steps_(std::move(steps)),
      verdicts_(steps_.size(), HalvingVerdict::kGoOn),
      losses_(steps_.size(), 0),
      over_(steps_.size(), false) {
  HEDDLE_CHECK(rule.first > 0 && rule.keep > 0 && rule.keep < 1 && rule.factor > 1);
}

int64_t Halving::RungEnd() const {
  double end = static_cast<double>(rule_.first) * std::pow(rule_.factor, rung_);
  return end < 1e15 ? static_cast<int64_t>(std::llround(end)) : std::numeric_limits<int64_t>::max();
}

int64_t Halving::NextReport(int job) const {
  return std::min(RungEnd(), steps_[static_cast<size_t>(job)]);
}

void Halving::Report(int job, int64_t step, double loss) {
  auto j = static_cast<size_t>(job);
  if (verdicts_[j] != HalvingVerdict::kGoOn || over_[j] || step < NextReport(job)) return;
  if (step >= steps_[j]) {
    over_[j] = true;
  } else {
    verdicts_[j] = HalvingVerdict::kWait;
    losses_[j] = std::isnan(loss) ? std::numeric_limits<double>::infinity() : loss;
  }
  EndRungIfAllReported();
}

void Halving::EndRungIfAllReported() {
  std::vector<size_t> there;
  for (size_t j = 0; j < steps_.size(); ++j) {
    if (verdicts_[j] == HalvingVerdict::kGoOn && !over_[j]) return;
    if (verdicts_[j] == HalvingVerdict::kWait) there.push_back(j);
  }
  if (there.empty()) return;
  std::stable_sort(there.begin(), there.end(),
                   [&](size_t a, size_t b) { return losses_[a] < losses_[b]; });
  auto kept = static_cast<size_t>(std::ceil(rule_.keep * static_cast<double>(there.size()) - 1e-9));
  for (size_t i = 0; i < there.size(); ++i) {
    verdicts_[there[i]] = i < kept ? HalvingVerdict::kGoOn : HalvingVerdict::kEnd;
  }
  ++rung_;
}

}  // namespace heddle
