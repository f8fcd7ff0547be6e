#include "search/solver/limited.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <queue>

#include "search/solver/dual.h"
#include "search/solver/eliminate.h"
#include "search/solver/labels.h"
#include "search/solver/narrow.h"
#include "search/solver/repair.h"

namespace heddle {
namespace {

// A part of the search space with its parent's bounds. Choices have the numbers of the whole
// problem.
struct OpenNode {
  double bound = -kForbidden;
  int64_t number = 0;
  std::vector<Allowed> allowed;
  double multiplier = -1;
  std::optional<PricedChoice> over, under;
};

// Step sizes for labels: relative to the bound, and growth per call.
constexpr double kFirstStep = 1e-4, kStepGrowth = 1.7;
constexpr int64_t kFirstLabels = 8;  // share of max_labels for the first attempt

struct Later {
  bool operator()(const OpenNode& a, const OpenNode& b) const {
    return a.bound != b.bound ? a.bound > b.bound : a.number > b.number;
  }
};

class BranchAndBound {
 public:
  BranchAndBound(const Problem& problem, const LimitOptions& options)
      : problem_(problem), options_(options), start_(std::chrono::steady_clock::now()) {
    options_.weights.bytes = 0;
    stop_ = [this] { return OutOfTime(); };
  }

  LimitedSolution Run() {
    open_.push({});
    double closed = kForbidden;  // the least bound of the parts that were discarded
    bool too_large = false;
    while (!open_.empty() && out_.nodes < options_.max_nodes && !OutOfTime() && !too_large) {
      OpenNode node = open_.top();
      if (node.bound >= Cutoff()) break;
      open_.pop();
      ++out_.nodes;
      Narrowed narrowed = Narrow(problem_, node.allowed);
      bool finished = Bound(narrowed, node);
      if (node.bound >= Cutoff()) {
        closed = std::min(closed, node.bound);
      } else if (finished) {
        Improve(node);
        Branch(narrowed, std::move(node), closed);
      } else {
        too_large = !OutOfTime();
        open_.push(std::move(node));
      }
    }
    if (!open_.empty()) closed = std::min(closed, open_.top().bound);
    Finish(closed);
    return std::move(out_);
  }

 private:
  double Objective(const PricedChoice& x) const { return x.cost.Weighted(options_.weights); }

  // Nodes with at least this bound can be discarded.
  double Cutoff() const {
    if (!best_) return kForbidden;
    double best = Objective(*best_);
    return best - options_.gap * std::abs(best);
  }

  bool OutOfTime() const {
    if (options_.max_seconds == kForbidden) return false;
    std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    return spent.count() >= options_.max_seconds;
  }

  void Offer(PricedChoice x) {
    if (x.cost.bytes > options_.limit || !(Objective(x) < kForbidden)) return;
    if (!best_ || Objective(x) < Objective(*best_)) best_ = std::move(x);
  }

  // Maximises the node's dual, starting from its parent's choices that are still allowed here.
  bool Bound(const Narrowed& narrowed, OpenNode& node) {
    DualOptions options;
    options.weights = options_.weights;
    options.limit = options_.limit;
    options.enough = Cutoff();
    options.multiplier = node.multiplier;
    options.stop = stop_;
    options.visit = [&](const PricedChoice& x) {
      ++out_.solves;
      Offer({narrowed.ToOriginal(x.choice), x.cost});
    };
    auto here = [&](std::optional<PricedChoice>& x) {
      for (size_t v = 0; x && v < x->choice.size(); ++v) {
        x->choice[v] = narrowed.FromOriginal(v, x->choice[v]);
        if (x->choice[v] < 0) x.reset();
      }
      return std::move(x);
    };
    DualResult dual = MaximiseDual(narrowed.problem, options, here(node.over), here(node.under));
    node.bound = std::max(node.bound, dual.bound);
    node.multiplier = dual.multiplier;
    auto there = [&](std::optional<PricedChoice>& x) {
      if (x) x->choice = narrowed.ToOriginal(std::move(x->choice));
      return std::move(x);
    };
    node.over = there(dual.over);
    node.under = there(dual.under);
    return dual.finished;
  }

  // Improves the best solution from the two choices at which the node's dual ended. May raise the
  // root's bound.
  void Improve(OpenNode& node) {
    if (!node.over || !node.under) return;
    std::optional<PricedChoice> fits, exceeds;  // the best mixtures on either side of the limit
    auto price = [&](const PricedChoice& x) {
      return Objective(x) + node.multiplier * std::max(x.cost.bytes - options_.limit, 0.0);
    };
    MixChoices(problem_, *node.under, *node.over, [&](PricedChoice x) {
      std::optional<PricedChoice>& best = x.cost.bytes <= options_.limit ? fits : exceeds;
      if (!best || price(x) < price(*best)) best = std::move(x);
    });
    if (fits) Offer(*fits);
    if (node.number != 0 || node.bound >= Cutoff()) return;
    if (options_.max_labels == 0) {
      PolishAll({fits, exceeds});
      return;
    }
    LabelOptions options;
    options.weights = options_.weights;
    options.limit = options_.limit;
    options.multiplier = node.multiplier;
    options.stop = stop_;
    LabelSolver labels(problem_, options);
    // A better choice leaves fewer labels, but takes as long to find as making some of them.
    if (Close(labels, options_.max_labels / kFirstLabels, node)) return;
    PolishAll({fits, exceeds});
    Close(labels, options_.max_labels, node);
  }

  void PolishAll(const std::vector<std::optional<PricedChoice>>& starts) {
    if (problem_.chains.empty()) return;
    for (const std::optional<PricedChoice>& start : starts) {
      if (start) Offer(Polish(problem_, options_.weights, options_.limit, *start, stop_));
    }
  }

  // Labels all choices that cost little more than the bound, with growing limits. True: the gap is
  // closed.
  bool Close(LabelSolver& labels, int64_t max_labels, OpenNode& root) {
    double from = root.bound, step = kFirstStep * std::abs(from);
    while (root.bound < Cutoff()) {
      // Rounding may turn the step into zero.
      double below = step > 0 ? std::min(Cutoff(), from + step) : Cutoff();
      LabelResult found = labels.Below(below, max_labels);
      if (!found.finished) return false;
      if (found.best) {
        Cost cost = Evaluate(problem_, found.best->choice);
        root.bound = found.best->objective;
        Offer({std::move(found.best->choice), cost});
        return true;
      }
      root.bound = below;
      step *= kStepGrowth;
    }
    return true;
  }

  // Splits the domain of the variable whose bytes differ most: choices closer to the one's bytes go
  // to one part, the others to the other.
  void Branch(const Narrowed& narrowed, OpenNode node, double& closed) {
    // Without `over` the node's minimum fits and equals the bound.
    if (!node.over || !node.under || node.bound >= Cutoff()) {
      closed = std::min(closed, node.bound);
      return;
    }
    size_t variable = 0;
    double most = 0, middle = 0;
    for (size_t v = 0; v < problem_.unary.size(); ++v) {
      const std::vector<double>& bytes = problem_.unary[v]->bytes;
      double over = bytes[static_cast<size_t>(node.over->choice[v])];
      double under = bytes[static_cast<size_t>(node.under->choice[v])];
      if (std::abs(over - under) > most) {
        most = std::abs(over - under);
        middle = (over + under) / 2;
        variable = v;
      }
    }
    Allowed more{static_cast<int>(variable), {}}, less = more;
    for (size_t x = 0; x < problem_.unary[variable]->size(); ++x) {
      if (narrowed.FromOriginal(variable, static_cast<int>(x)) < 0) continue;
      bool above = problem_.unary[variable]->bytes[x] > middle;
      (above ? more : less).choices.push_back(static_cast<int>(x));
    }
    for (Allowed* part : {&more, &less}) {
      OpenNode child = node;
      child.number = ++made_;
      child.allowed.push_back(std::move(*part));
      open_.push(std::move(child));
    }
  }

  void Finish(double closed) {
    out_.lower_bound = closed;
    if (!best_) {
      out_.proven = closed == kForbidden;
      return;
    }
    double best = Objective(*best_);
    out_.lower_bound = std::min(closed, best);
    out_.proven = out_.lower_bound >= Cutoff();
    out_.best = Solution{best, Evaluate(problem_, best_->choice), best_->choice, {}};
  }

  const Problem& problem_;
  LimitOptions options_;
  std::chrono::steady_clock::time_point start_;
  std::function<bool()> stop_;
  std::optional<PricedChoice> best_;
  std::priority_queue<OpenNode, std::vector<OpenNode>, Later> open_;
  int64_t made_ = 0;
  LimitedSolution out_;
};

LimitedSolution SolveUnlimited(const Problem& problem, const Weights& weights) {
  LimitedSolution out;
  std::optional<Solution> solution = SolveFolded(problem, weights);
  if (!solution) return out;
  out.proven = true;
  out.nodes = out.solves = 1;
  out.lower_bound = solution->objective;
  if (solution->objective < kForbidden) out.best = std::move(solution);
  return out;
}

}  // namespace

double LimitedSolution::gap() const {
  if (!best) return proven ? 0 : kForbidden;
  if (best->objective <= lower_bound) return 0;
  return (best->objective - lower_bound) / std::abs(best->objective);
}

LimitedSolution SolveLimited(const Problem& problem, const LimitOptions& options) {
  if (options.limit == kForbidden) {
    Weights weights = options.weights;
    weights.bytes = 0;
    return SolveUnlimited(problem, weights);
  }
  return BranchAndBound(problem, options).Run();
}

}  // namespace heddle
