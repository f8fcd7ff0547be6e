#include "search/solver/repair.h"

#include <algorithm>
#include <set>

#include "search/solver/limited.h"
#include "search/solver/narrow.h"

namespace heddle {
namespace {

// Branch-and-bound nodes spent on a single copy.
constexpr int64_t kNodesPerCopy = 8;

std::vector<const std::vector<int>*> CopiesOf(const Problem& problem) {
  std::vector<const std::vector<int>*> copies;
  for (const VariableChain& chain : problem.chains) {
    for (const std::vector<int>& copy : chain.copies) copies.push_back(&copy);
  }
  return copies;
}

std::vector<int> UnchainedOf(const Problem& problem) {
  std::vector<bool> chained(problem.unary.size(), false);
  for (const std::vector<int>* copy : CopiesOf(problem)) {
    for (int v : *copy) chained[static_cast<size_t>(v)] = true;
  }
  std::vector<int> unchained;
  for (size_t v = 0; v < chained.size(); ++v) {
    if (!chained[v]) unchained.push_back(static_cast<int>(v));
  }
  return unchained;
}

void Take(const std::vector<int>& variables, const std::vector<int>& from, std::vector<int>& to) {
  for (int v : variables) to[static_cast<size_t>(v)] = from[static_cast<size_t>(v)];
}

class Polisher {
 public:
  Polisher(const Problem& problem, const Weights& weights, double limit, PricedChoice start,
           const std::function<bool()>& stop)
      : problem_(problem),
        weights_(weights),
        limit_(limit),
        at_(std::move(start)),
        stop_(stop),
        unchained_(UnchainedOf(problem)) {
    weights_.bytes = 0;
  }

  PricedChoice Run() {
    bool better = true;
    while (better) {
      better = false;
      seen_.clear();
      for (const VariableChain& chain : problem_.chains) {
        for (size_t c = 0; c < chain.copies.size(); ++c) {
          if (stop_ && stop_()) return std::move(at_);
          if (IsNew(chain, c)) better = Improve(chain.copies[c]) || better;
        }
      }
      if (!unchained_.empty()) better = Improve(unchained_) || better;
    }
    return std::move(at_);
  }

 private:
  // Copies that equal others, between copies that equal theirs, are examined once.
  bool IsNew(const VariableChain& chain, size_t c) {
    std::vector<int> key = {static_cast<int>(&chain - problem_.chains.data())};
    for (size_t i = c == 0 ? 0 : c - 1; i < std::min(c + 2, chain.copies.size()); ++i) {
      key.push_back(-1);
      for (int v : chain.copies[i]) key.push_back(at_.choice[static_cast<size_t>(v)]);
    }
    return seen_.insert(std::move(key)).second;
  }

  bool Improve(const std::vector<int>& variables) {
    Freed freed = Free(problem_, variables, at_.choice);
    std::vector<int> old;
    double bytes = 0;
    for (int v : variables) {
      old.push_back(at_.choice[static_cast<size_t>(v)]);
      bytes += problem_.unary[static_cast<size_t>(v)]->At(static_cast<size_t>(old.back())).bytes;
    }
    LimitOptions options;
    options.weights = weights_;
    options.limit = limit_ - (at_.cost.bytes - bytes);
    options.max_nodes = kNodesPerCopy;
    LimitedSolution found = SolveLimited(freed.problem, options);
    if (!found.best) return false;
    PricedChoice next = at_;
    for (size_t i = 0; i < variables.size(); ++i) {
      next.choice[static_cast<size_t>(variables[i])] = found.best->choice[i];
    }
    next.cost = Evaluate(problem_, next.choice);
    if (next.cost.bytes > limit_) return false;
    double gain = at_.cost.Weighted(weights_) - next.cost.Weighted(weights_);
    bool fits = at_.cost.bytes <= limit_;
    if (fits && !(gain > 1e-12 * at_.cost.Weighted(weights_))) return false;
    at_ = std::move(next);
    return true;
  }

  const Problem& problem_;
  Weights weights_;
  double limit_;
  PricedChoice at_;
  const std::function<bool()>& stop_;
  std::vector<int> unchained_;
  std::set<std::vector<int>> seen_;
};

}  // namespace

void MixChoices(const Problem& problem, const PricedChoice& one, const PricedChoice& other,
                const std::function<void(PricedChoice)>& visit) {
  std::vector<const std::vector<int>*> copies = CopiesOf(problem);
  std::vector<int> unchained = UnchainedOf(problem);
  for (const auto& [first, second] : {std::pair(&one, &other), std::pair(&other, &one)}) {
    for (const PricedChoice* around : {first, second}) {
      if (around == first && unchained.empty()) continue;
      PricedChoice mixed = *second;
      Take(unchained, around->choice, mixed.choice);
      for (const std::vector<int>* copy : copies) {
        Take(*copy, first->choice, mixed.choice);
        mixed.cost = Evaluate(problem, mixed.choice);
        if (mixed.cost.seconds < kForbidden) visit(mixed);
      }
    }
  }
}

PricedChoice Polish(const Problem& problem, const Weights& weights, double limit,
                    PricedChoice start, const std::function<bool()>& stop) {
  return Polisher(problem, weights, limit, std::move(start), stop).Run();
}

}  // namespace heddle
