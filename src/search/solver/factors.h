// Variable elimination: the exact minimum of a sum of tables, variable by variable.
//
//   min over x of f(x,a) + g(x,b) + u(x)  is a table over (a, b):  x is eliminated, and f, g and u are remembered
//
// When all variables are eliminated, the minimum remains. Going back through the tables in reverse
// order and taking the best x for the choices known by then gives an arg-min. The order is greedy:
// the variable whose elimination makes the smallest table comes next, with ties broken by the
// lowest number. Time and memory are exponential only in the width of the graph (Bertele and
// Brioschi, 1972); a chain of nodes with residual connections has width 2 or 3. Of equal choices
// the lowest is taken, so results depend only on the input.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/small_vector.h"
#include "search/solver/problem.h"

namespace heddle {

// The most entries that a table may have.
constexpr int64_t kMaxTableEntries = int64_t{1} << 27;

// A table over any number of variables, row-major in the order of the scope.
struct FactorTable {
  SmallVector<int, 4> scope;  // in ascending order
  TableRef values;
};

class Elimination {
 public:
  // Takes the domain sizes by variable. Variables without a factor are ignored.
  explicit Elimination(std::vector<size_t> domains) : domains_(std::move(domains)) {}

  // The scope may be in any order, without duplicates.
  void Add(SmallVector<int, 4> scope, TableRef values);

  // Eliminates the marked variables. False where a table would be too large; then no other function
  // may be called.
  bool Run(const std::vector<bool>& eliminated);

  // The sum of the remaining factors as a table over these variables, in any order. They must
  // include all that remain.
  Table Rest(const std::vector<int>& scope) const;

  // Fills in the choices of the eliminated variables, given those of the others.
  void Recover(std::vector<int>& choice) const;

 private:
  using Scope = SmallVector<int, 4>;  // few variables share tables with more than four others
  using Strides = SmallVector<size_t, 4>;

  // A table that a step adds up.
  struct Operand {
    TableRef values;
    Strides strides;  // by variable of the step's scope
    size_t own = 1;   // stride of the eliminated variable
  };
  struct Step {
    int variable = 0;
    Scope scope;
    std::vector<Operand> operands;  // those without the last variable of the scope come first
    size_t without_last = 0;        // how many do not have it
  };

  int64_t TableSize(int variable) const;
  Scope Neighbours(int variable) const;
  Step Take(int variable);
  void Eliminate(int variable);
  TableRef Minimise(const Step& step) const;

  std::vector<size_t> domains_;
  std::vector<FactorTable> factors_;          // eliminated ones have no values
  std::vector<SmallVector<int, 4>> touched_;  // per variable: the factors that contain it
  std::vector<Step> steps_;
};

}  // namespace heddle
