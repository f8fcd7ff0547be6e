// The exact search: configurations in the order of what they cannot be faster than, each with the best strategies for
// its mesh, stages and recomputation, until none that is left can win.
#include <algorithm>
#include <atomic>
#include <thread>

#include "plan/precision.h"
#include "search/assemble.h"
#include "search/searchers.h"

namespace heddle {
namespace {

constexpr size_t kProposed = 8;

struct Weighed {
  Configuration configuration;
  double floor = 0;
  Estimate estimate;
};

// Calls on as many threads as there are cores; what is called must not depend on the order.
template <typename Function>
void InParallel(size_t count, const Function& function) {
  size_t workers = std::min<size_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++) function(i);
  };
  std::vector<std::jthread> threads;
  for (size_t w = 1; w < workers; ++w) threads.emplace_back(work);
  work();
}

class Explorer {
 public:
  Explorer(const SearchProblem& problem, Prices& prices)
      : problem_(problem), prices_(prices), estimator_(problem, prices) {}

  Proposals Run() {
    Explore(false);
    if (best_.empty()) Explore(true);
    Proposals out;
    out.considered = considered_;
    out.space = SpaceInWords(wide_);
    out.least_bytes = least_bytes_;
    out.lower_bound = bound_;
    for (const Weighed& weighed : best_) {
      Plan plan = Assemble(problem_, prices_, estimator_, weighed.configuration, weighed.estimate);
      out.plans.push_back({std::move(plan), ToString(weighed.configuration),
                           weighed.estimate.seconds, weighed.floor});
    }
    if (!best_.empty()) {
      out.additive = best_.front().estimate.seconds;
      out.additive_bound = std::min(out.additive, bound_);
    }
    return out;
  }

 private:
  void Explore(bool wide) {
    wide_ = wide;
    std::vector<Weighed> all;
    for (const Configuration& configuration : Enumerate(problem_, wide)) {
      all.push_back({configuration, 0, {}});
    }
    considered_ += all.size();
    InParallel(all.size(), [&](size_t i) {
      if (!problem_.Over()) all[i].floor = estimator_.Floor(all[i].configuration);
    });
    std::stable_sort(all.begin(), all.end(),
                     [](const Weighed& a, const Weighed& b) { return a.floor < b.floor; });
    bound_ = all.empty() ? 0 : all.front().floor;
    constexpr size_t kBatch = 32;
    for (size_t first = 0; first < all.size(); first += kBatch) {
      size_t last = std::min(all.size(), first + kBatch);
      if (best_.size() == kProposed && all[first].floor >= best_.back().estimate.seconds) break;
      if (problem_.Over() && !best_.empty()) break;
      InParallel(last - first, [&](size_t i) {
        Weighed& at = all[first + i];
        if (at.floor < kForbidden) at.estimate = estimator_.Of(at.configuration);
      });
      for (size_t i = first; i < last; ++i) Take(all[i]);
      if (problem_.progress) problem_.progress("weighing configurations");
    }
  }

  void Take(const Weighed& weighed) {
    const Estimate& estimate = weighed.estimate;
    if (!estimate.fits) {
      if (estimate.bytes > 0 && (least_bytes_ == 0 || estimate.bytes < least_bytes_)) {
        least_bytes_ = estimate.bytes;
      }
      return;
    }
    auto place = std::upper_bound(
        best_.begin(), best_.end(), weighed,
        [](const Weighed& a, const Weighed& b) { return a.estimate.seconds < b.estimate.seconds; });
    best_.insert(place, weighed);
    if (best_.size() > kProposed) best_.pop_back();
  }

  const SearchProblem& problem_;
  Prices& prices_;
  Estimator estimator_;
  bool wide_ = false;
  std::vector<Weighed> best_;
  size_t considered_ = 0;
  double least_bytes_ = 0, bound_ = 0;
};

Proposals Propose(const SearchProblem& problem) {
  Precision precision;
  precision.compute = problem.precision;
  precision.gradients = problem.gradients;
  precision.products = problem.products;
  Model model = WithComputeType(problem.model, problem.precision);
  Prices prices(model, problem.cluster, {precision, problem.sim, problem.whole, nullptr});
  return Explorer(problem, prices).Run();
}

}  // namespace

SearcherDef AutoSearcher() {
  return {"auto", "the exact search over meshes, stages, micro-batches and strategies", Propose};
}

}  // namespace heddle
