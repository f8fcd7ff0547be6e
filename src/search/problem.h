// An additive problem: variables with finite domains, a cost for every choice, and tables of costs for pairs.
//
//   minimise   sum over v of unary_v(x_v)  +  sum over pairs (a, b) of table_ab(x_a, x_b)
//
// Nothing here knows of models or devices (stage_problem.h makes problems of them). Unary costs have a second
// number, bytes of memory, which counts with a weight: a multiplier of the memory limit. Equal tables are one object:
// where all of a chain's blocks are alike they point to the same ones, and that is how solvers see it. A cost of
// kForbidden rules a choice out.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace heddle {

constexpr double kForbidden = std::numeric_limits<double>::infinity();

// Row-major.
using Table = std::vector<double>;
using TableRef = std::shared_ptr<const Table>;

struct Unary {
  std::vector<double> seconds, bytes;  // per choice
  bool operator==(const Unary&) const = default;
};
using UnaryRef = std::shared_ptr<const Unary>;

struct PairCost {
  int a = 0, b = 0;  // variables; a != b
  TableRef table;    // [x_a * domain(b) + x_b]
};

// Copies of a block, each fed by the one before: the variables of copies[i], in the same order in every copy.
struct VariableChain {
  std::vector<std::vector<int>> copies;
};

struct Problem {
  std::vector<UnaryRef> unary;  // per variable
  std::vector<PairCost> pairs;  // a pair of variables may be there several times: costs add up
  std::vector<VariableChain> chains;

  size_t domain(int variable) const { return unary[static_cast<size_t>(variable)]->seconds.size(); }
};

struct Cost {
  double seconds = 0, bytes = 0;
  bool operator==(const Cost&) const = default;
  double Weighted(double per_byte) const { return seconds + per_byte * bytes; }
};

struct Solution {
  double objective = 0;  // seconds + per_byte x bytes; kForbidden where there is no allowed choice
  std::vector<int> choice;  // per variable
};

// What a choice for every variable costs, term by term in the order of the problem.
Cost Evaluate(const Problem& problem, const std::vector<int>& choice);

// The problem with the variables whose `fixed` is not -1 left that one choice (number 0 of theirs then).
Problem Restrict(const Problem& problem, const std::vector<int>& fixed);

}  // namespace heddle
