// An additive problem as an integer program, solved by COIN-OR's CBC: the baseline that the exact solvers are compared
// with. The formulation is Alpa's (Zheng et al., OSDI 2022, section 4.2):
//
//   s_v    one-hot, binary: the choice of variable v
//   e_ab   one-hot over the pairs of choices of a and b, for every two variables whose tables do not sum up to a
//          constant; its rows sum up to s_a, its columns to s_b, so it may be continuous
//   minimise  sum of s_v . unary_v  +  sum of e_ab . table_ab
//
// Forbidden choices have no column. Chains mean nothing here: all of the problem is solved, however many blocks are
// alike. CBC is optional (Debian: coinor-libcbc-dev).
#pragma once

#include <cstdint>
#include <optional>

#include "search/solver/problem.h"

namespace heddle {

struct IlpOptions {
  Weights weights = {};
  std::optional<double> memory_limit = {};  // bytes of all choices together, to a millionth
  double seconds = 600;                     // of the clock; CBC looks at it between relaxations
};

struct IlpResult {
  std::optional<Solution> solution;  // none where nothing is allowed, or nothing was found in time
  bool proven = false;               // that it is the best, or that there is none
  double bound = 0;  // nothing allowed costs less; kForbidden where there is nothing
  int64_t columns = 0, rows = 0;
};

bool HasIlp();

// Throws InputError where heddle was built without CBC.
IlpResult SolveIlp(const Problem& problem, const IlpOptions& options = {});

}  // namespace heddle
