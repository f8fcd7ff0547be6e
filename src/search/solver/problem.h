// An additive problem: variables with finite domains, a cost for every choice, and tables of costs
// for pairs of variables.
//
//   minimise   sum over v of unary_v(x_v)  +  sum over pairs (a, b) of table_ab(x_a, x_b)
//
// Nothing here knows of models or devices (stage_problem.h makes problems of them). A cost is three
// numbers: seconds that a device computes or waits, seconds of traffic beside computation (queued),
// and bytes of memory; solvers take a weight for each. Equal tables are one object: blocks of a
// chain that are alike point to the same tables, and solvers recognise them by that. A choice with
// kForbidden seconds is not allowed.
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
  TableRef queued;   // null: all zero
};

// A chain of copies of a block, each fed by the one before. copies[i] has the variables of a copy,
// in the same order for every copy. `left_out` more copies may follow copies[repeated], each like
// that one. They have no variables; a solution lists their choices separately.
struct VariableChain {
  std::vector<std::vector<int>> copies;
  int64_t left_out = 0;
  size_t repeated = 0;
};

struct Problem {
  std::vector<UnaryRef> unary;  // per variable
  std::vector<PairCost> pairs;  // several entries for the same pair add up
  std::vector<VariableChain> chains;

  size_t domain(int variable) const { return unary[static_cast<size_t>(variable)]->size(); }
};

struct Solution {
  double objective = 0;  // weighted; kForbidden where no allowed choice exists
  Cost cost;
  std::vector<int> choice;  // per variable
  // Per chain: for each copy without variables, the choices in the order of a copy's variables.
  std::vector<std::vector<std::vector<int>>> left_out = {};
};

// Weighted sums of seconds, queued seconds and bytes.
TableRef Weighted(const Unary& unary, const Weights& weights);
TableRef Weighted(const PairCost& pair, const Weights& weights);

// The cost of a choice for every variable, summed in the order of the problem. For problems without
// left-out copies.
Cost Evaluate(const Problem& problem, const std::vector<int>& choice);

// Indices of the chosen entries in the tables of pairs. Between the repeated copy of a chain and
// the next copy, the choices of the last left-out copy count.
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
  std::map<int, Last> last_;    // by variable of the repeated copy
  std::map<int, size_t> next_;  // by variable of the next copy: the chain
};

// The cost of a solution without the copies that have no variables.
Cost EvaluateExplicit(const Problem& problem, const Solution& solution);

// The problem in which the variables whose `fixed` is not -1 have only that choice, which becomes
// their choice 0.
Problem Restrict(const Problem& problem, const std::vector<int>& fixed);

}  // namespace heddle
