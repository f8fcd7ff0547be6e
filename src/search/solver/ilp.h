// An additive problem as an integer program, solved by COIN-OR's CBC: a baseline for the exact
// solvers. The formulation is Alpa's (Zheng et al., OSDI 2022, section 4.2):
//
//   s_v    one-hot, binary: the choice of variable v
//   e_ab   one-hot over the pairs of choices of a and b, for every two variables whose tables do not add up to a
//          constant; its rows sum to s_a and its columns to s_b, so it may be continuous
//   minimise  sum of s_v . unary_v  +  sum of e_ab . table_ab
//
// Forbidden choices have no column. Chains are ignored: all copies are solved, however many are
// alike. CBC is optional (Debian: coinor-libcbc-dev).
#pragma once

#include <cstdint>
#include <optional>

#include "search/solver/problem.h"

namespace heddle {

struct IlpOptions {
  Weights weights = {};
  // Bytes of all choices together, accurate to a millionth.
  std::optional<double> memory_limit = {};
  double seconds = 600;  // wall-clock time; CBC checks it between relaxations
};

struct IlpResult {
  std::optional<Solution> solution;  // none where nothing is allowed or nothing was found in time
  bool proven = false;               // the solution is optimal, or none exists
  // A lower bound on the cost of allowed choices; kForbidden where there are none.
  double bound = 0;
  int64_t columns = 0, rows = 0;
};

bool HasIlp();

// Throws InputError where heddle was built without CBC.
IlpResult SolveIlp(const Problem& problem, const IlpOptions& options = {});

}  // namespace heddle
