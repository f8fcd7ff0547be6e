// The lower bounds of the search against thousands of plans of its space.
#include <gtest/gtest.h>

#include <cstdlib>

#include "bound_check.h"

namespace heddle {
namespace {

// HEDDLE_BOUND_SEED and HEDDLE_BOUND_PLANS (of a problem) look elsewhere, and longer.
int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

class BoundsOfManyPlans : public testing::TestWithParam<size_t> {};

TEST_P(BoundsOfManyPlans, NoneIsRefuted) {
  uint64_t seed = static_cast<uint64_t>(FromEnvironment("HEDDLE_BOUND_SEED", 1));
  int plans = static_cast<int>(FromEnvironment("HEDDLE_BOUND_PLANS", 160));
  BoundCheck check(BoundCases()[GetParam()], seed);
  check.Run(plans / 2, plans / 2);
  fmt::print("{}\n", check.Summary());
  for (const BoundViolation& violation : check.Worst()) ADD_FAILURE() << violation.text;
}

INSTANTIATE_TEST_SUITE_P(All, BoundsOfManyPlans, testing::Range(size_t{0}, BoundCases().size()));

}  // namespace
}  // namespace heddle
