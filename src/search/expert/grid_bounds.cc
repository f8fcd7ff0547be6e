#include "search/expert/grid_bounds.h"

#include <algorithm>
#include <set>

namespace heddle {
namespace {

int Blocks(const ExpertSums& sums) { return static_cast<int>(sums.layers.size()) - 1; }

}  // namespace

GridBounds::GridBounds(const SearchTask& task, std::shared_ptr<ExpertEstimator> estimator)
    : task_(task),
      estimator_(std::move(estimator)),
      limit_(static_cast<double>(MemoryLimit(task))) {}

const ExpertSums* GridBounds::Priced(int64_t ep, double samples) const {
  ExpertKey key{.ep = ep, .samples = static_cast<int64_t>(samples), .microbatches = 1e9};
  return estimator_->prices().Of(key, RecomputePolicy::kNone);
}

bool GridBounds::Find(std::vector<Degrees>& grid) {
  auto batch = static_cast<double>(std::max<int64_t>(1, BatchSize(task_.model)));
  std::set<double> sizes;
  std::set<int64_t> spread;
  for (const Degrees& d : grid) {
    sizes.insert(batch / static_cast<double>(d.dp * d.microbatches));
    spread.insert(d.ep);
  }
  double sample = kForbidden;
  for (double size : {*sizes.begin(), *sizes.rbegin()}) {
    const ExpertSums* one = Priced(1, size);
    if (one == nullptr) return false;
    sample = std::min(sample, one->Seconds(0, Blocks(*one)) / size);
    parameters_ = one->Parameters(0, Blocks(*one));
  }
  whole_ = sample * batch;
  // Experts can be spread over at most as many ranks as there are experts.
  int64_t most = 1;
  for (int64_t ep : spread) {
    const ExpertSums* one = ep > 1 ? Priced(ep, *sizes.begin()) : nullptr;
    if (one == nullptr) continue;
    most = ep;
    of_experts_ = static_cast<double>(ep) * one->expert.back();
  }
  std::erase_if(grid, [&](const Degrees& d) { return d.ep > most; });
  return true;
}

double GridBounds::LeastSeconds(const Degrees& d) const {
  bool split = FindSchedule(d.schedule)->splits_backward;
  double rounds = static_cast<double>(d.microbatches * d.chunks);
  double bubble = split ? 0 : static_cast<double>(d.pp - 1) / rounds;
  return whole_ / static_cast<double>(d.dp * d.tp * d.cp * d.pp) * (1 + bubble);
}

bool GridBounds::IsTooLarge(const Degrees& d) const {
  double kept = 1 - task_.pruning.sparsity;
  auto held = [&](int64_t ranks) {
    HeldBytes each = HeldBytesOf(estimator_->prices().precision(), kept, ranks > 1 ? d.zero : 0,
                                 static_cast<double>(ranks), d.microbatches == 1, d.offload);
    return each.at_peak(d.microbatches > 1);
  };
  double bytes = (parameters_ - of_experts_) * held(d.dp * d.cp) +
                 of_experts_ / static_cast<double>(d.ep) * held(d.dp / d.ep * d.cp);
  return bytes / static_cast<double>(d.tp * d.pp) > limit_;
}

}  // namespace heddle
