// An additive problem: variables with finite domains, a cost for every choice, and tables of costs for pairs.
//
//   minimise   sum over v of unary_v(x_v)  +  sum over pairs (a, b) of table_ab(x_a, x_b)
//
// Nothing here knows of models or devices (stage_problem.h makes problems of them). A cost is three numbers: seconds
// that a device's computation takes or waits, seconds of traffic that goes on beside it, and bytes of memory; solvers
// take a weight for each. Equal tables are one object: where all of a chain's blocks are alike they point to the same
// ones, and that is how solvers see it. Seconds of kForbidden rule a choice out.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace heddle {

constexpr double kForbidden = std::numeric_limits<double>::infinity();

struct Weights {
  double seconds = 1, queued = 1, bytes = 0;
};

struct Cost {
  double seconds = 0, queued = 0, bytes = 0;
  bool operator==(const Cost&) const = default;
  Cost& operator+=(const Cost& other);
  double Weighted(const Weights& weights) const;
};

// Row-major.
using Table = std::vector<double>;
using TableRef = std::shared_ptr<const Table>;

struct Unary {
  std::vector<double> seconds, queued, bytes;  // per choice
  size_t size() const { return seconds.size(); }
  void Resize(size_t size);
  void Push(const Cost& cost);
  void Add(size_t x, const Cost& cost);
  Cost At(size_t x) const { return {seconds[x], queued[x], bytes[x]}; }
  bool operator==(const Unary&) const = default;
};
using UnaryRef = std::shared_ptr<const Unary>;

struct PairCost {
  int a = 0, b = 0;  // variables; a != b
  TableRef seconds;  // [x_a * domain(b) + x_b]
  TableRef queued;   // may be missing: none
};

// Copies of a block, each fed by the one before: the variables of copies[i], in the same order in every copy.
//
// More copies than are spelled out may follow copies[repeated], each like that one. They have no variables: a solution
// lists their choices apart.
struct VariableChain {
  std::vector<std::vector<int>> copies;
  int64_t unspelled = 0;
  size_t repeated = 0;
};

struct Problem {
  std::vector<UnaryRef> unary;  // per variable
  std::vector<PairCost> pairs;  // a pair of variables may be there several times: costs add up
  std::vector<VariableChain> chains;

  size_t domain(int variable) const { return unary[static_cast<size_t>(variable)]->size(); }
};

struct Solution {
  double objective = 0;  // weighted; kForbidden where there is no allowed choice
  Cost cost;
  std::vector<int> choice;  // per variable
  // Per chain: per copy that is not spelled out, the choices in the order of a copy's variables.
  std::vector<std::vector<std::vector<int>>> unspelled = {};
};

// Seconds and queued seconds as one.
TableRef Weighted(const Unary& unary, const Weights& weights);
TableRef Weighted(const PairCost& pair, const Weights& weights);

// Nothing unspelled. What a choice for every variable costs, term by term in the order of the problem.
Cost Evaluate(const Problem& problem, const std::vector<int>& choice);

// Where the tables of a pair have what was chosen. Between the copy that others, not spelled out, follow and the next one
// that is, the choices of the last of those count.
class PairEntries {
 public:
  // Both must outlive it.
  PairEntries(const Problem& problem, const Solution& solution);
  size_t Of(const PairCost& pair) const;

 private:
  const Problem& problem_;
  const Solution& solution_;
  struct Last {
    size_t chain;
    int choice;
  };
  std::map<int, Last> last_;    // by variable of the copy that is followed
  std::map<int, size_t> next_;  // by variable of the next copy: the chain
};

// The same with the variables as a solution has them, without what is not spelled out.
Cost EvaluateSpelled(const Problem& problem, const Solution& solution);

// The problem with the variables whose `fixed` is not -1 left that one choice (number 0 of theirs then).
Problem Restrict(const Problem& problem, const std::vector<int>& fixed);

}  // namespace heddle
