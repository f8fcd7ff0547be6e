// Compares all plans of search/replicas/factor_cases.h with CBC, for every choice of what may be computed whole.
#include <gtest/gtest.h>

#include "factor_check.h"
#include "search/solver/cbc.h"

namespace heddle {
namespace {

TEST(FactorsSlow, CutsOfAllModelsAreCbcs) {
  if (!HasCbc()) GTEST_SKIP() << "built without CBC";
  int problems = 0;
  for (const FactorCase& at : FactorCases()) {
    SCOPED_TRACE(at.model + " on " + at.cluster);
    FactorPlan plan = PlanOf(at);
    for (Whole what : {Whole::kGradients, Whole::kNodes, Whole::kHalves}) {
      problems += CheckCuts(plan, what);
    }
  }
  EXPECT_GE(problems, 60);
}

}  // namespace
}  // namespace heddle
