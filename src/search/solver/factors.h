// Variable elimination: the exact minimum of a sum of tables, variable by variable.
//
//   min over x of f(x,a) + g(x,b) + u(x)  is a table over (a, b):  x is gone, and f, g and u are remembered
//
// What is left when all variables are gone is the minimum; going back through the tables in reverse, taking the best x
// for the choices there are by then, gives an arg-min. The order is greedy: the variable whose elimination makes the smallest table, of equal ones the lowest.
// Time and memory are exponential in the width of the graph only (Bertelè and Brioschi, 1972): a chain of nodes with
// residual connections has width 2 or 3. Of equal choices the lowest is taken, so results do not depend on anything
// but the input.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/small_vector.h"
#include "search/solver/problem.h"

namespace heddle {

// Entries of the largest table that elimination makes.
constexpr int64_t kMaxTableEntries = int64_t{1} << 27;

// A table over any number of variables, row-major in the order of the scope.
struct FactorTable {
  SmallVector<int, 4> scope;  // ascending
  TableRef values;
};

class Elimination {
 public:
  // Domains by variable; variables without a factor are not touched.
  explicit Elimination(std::vector<size_t> domains) : domains_(std::move(domains)) {}

  // The scope in any order, no variable twice.
  void Add(SmallVector<int, 4> scope, TableRef values);

  // Eliminates all variables marked. False where a table would be too large: nothing can be asked then.
  bool Run(const std::vector<bool>& eliminated);

  // The sum of what is left, over variables given in any order, which include all that are left in a factor.
  Table Rest(const std::vector<int>& scope) const;

  // Fills in the choices of eliminated variables; those of the others must be there.
  void Recover(std::vector<int>& choice) const;

 private:
  using Scope = SmallVector<int, 4>;  // variables: few nodes have more neighbours
  using Strides = SmallVector<size_t, 4>;

  // A table that was summed up in a step.
  struct Operand {
    TableRef values;
    Strides strides;  // by variable of the step's scope
    size_t own = 1;   // of the variable that is eliminated
  };
  struct Step {
    int variable = 0;
    Scope scope;
    std::vector<Operand> operands;  // those that do not have the last of the scope come first
    size_t without_last = 0;        // how many these are
  };

  int64_t TableSize(int variable) const;
  Scope Neighbours(int variable) const;
  Step Take(int variable);
  void Eliminate(int variable);
  TableRef Minimise(const Step& step) const;

  std::vector<size_t> domains_;
  std::vector<FactorTable> factors_;          // eliminated ones have no values
  std::vector<SmallVector<int, 4>> touched_;  // by variable: factors that have it
  std::vector<Step> steps_;
};

}  // namespace heddle
