#include "search/queue_bound.h"

#include <algorithm>
#include <cmath>

#include "search/dual.h"
#include "search/repair.h"

namespace heddle {
namespace {

// Where a dual ended: seconds and queued seconds of its mixture.
struct Line {
  double seconds = 0, queued = 0;
  double At(double share) const { return (1 - share) * seconds + share * queued; }
  double slope() const { return queued - seconds; }
};

class Bounder {
 public:
  Bounder(const Problem& problem, double limit)
      : problem_(problem), limit_(std::min(limit, NoLimit(problem))) {}

  QueueBounds Run(int max_rounds) {
    std::optional<Line> rising, falling;
    double share = 0;
    for (int round = 0; round < max_rounds; ++round) {
      std::optional<Line> line = Solve(share);
      if (!line) break;
      bool rises = line->slope() > 0;
      (rises ? rising : falling) = line;
      if (share == 0 && !rises) break;  // largest at the end
      if (share == 1 && rises) break;
      if (!falling) {
        share = 1;
        continue;
      }
      double apart = falling->At(0) - rising->At(0);
      double next = std::clamp(apart / (rising->slope() - falling->slope()), 0.0, 1.0);
      if (rising->At(next) <= out_.lower_bound * (1 + 1e-12)) break;
      share = next;
    }
    return std::move(out_);
  }

 private:
  // More than anything takes.
  static double NoLimit(const Problem& problem) {
    double bytes = 1;
    for (const UnaryRef& unary : problem.unary) {
      bytes += *std::max_element(unary->bytes.begin(), unary->bytes.end());
    }
    return 2 * bytes;
  }

  std::optional<Line> Solve(double share) {
    DualOptions options;
    options.weights = {1 - share, share, 0};
    options.limit = limit_;
    options.multiplier = out_.multiplier;
    options.visit = [&](const PricedChoice& x) {
      ++out_.solves;
      Met(x);
    };
    DualResult dual = MaximiseDual(problem_, options);
    if (dual.bound > out_.lower_bound) {
      out_.lower_bound = dual.bound;
      out_.share = share;
      out_.multiplier = dual.multiplier;
    }
    if (!dual.finished || dual.bound == kForbidden) return std::nullopt;
    const Cost& under = dual.under->cost;
    if (!dual.over) return Line{under.seconds, under.queued};
    Mix(problem_, *dual.under, *dual.over, [&](const PricedChoice& x) { Met(x); });
    const Cost& over = dual.over->cost;
    double part = (limit_ - under.bytes) / (over.bytes - under.bytes);
    return Line{under.seconds + part * (over.seconds - under.seconds),
                under.queued + part * (over.queued - under.queued)};
  }

  void Met(const PricedChoice& x) {
    double longest = std::max(x.cost.seconds, x.cost.queued);
    if (x.cost.bytes > limit_ || !(longest < kForbidden)) return;
    if (!out_.best || longest < out_.best->objective)
      out_.best = Solution{longest, x.cost, x.choice, {}};
  }

  const Problem& problem_;
  double limit_;
  QueueBounds out_;
};

}  // namespace

QueueBounds QueueBound(const Problem& problem, double limit, int max_rounds) {
  return Bounder(problem, limit).Run(max_rounds);
}

}  // namespace heddle
