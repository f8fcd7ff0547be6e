// Compares the lower bounds of the search with thousands of plans of its space.
#include <gtest/gtest.h>

#include <cstdlib>

#include "bound_check.h"

namespace heddle {
namespace {

// HEDDLE_BOUND_SEED selects other plans, HEDDLE_BOUND_PLANS sets their number per problem.
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
  EXPECT_GE(check.plans(), plans);
  EXPECT_GE(check.fitting(), plans / 16);
  for (const BoundViolation& violation : check.Worst()) ADD_FAILURE() << violation.text;
}

// For every fourth configuration, the plan that the search makes of it and the expert's plans.
class BoundsOfManyConfigurations : public testing::TestWithParam<BoundCase> {};

TEST_P(BoundsOfManyConfigurations, NoneIsRefuted) {
  BoundCheck check(GetParam(), 1);
  check.CheckAssembled(4);
  fmt::print("{}\n", check.Summary());
  for (const BoundViolation& violation : check.Worst()) ADD_FAILURE() << violation.text;
}

INSTANTIATE_TEST_SUITE_P(
    All, BoundsOfManyConfigurations,
    testing::Values(
        BoundCase{"gpt:layers=8,hidden=4096,heads=32,seq=2048,vocab=51200,batch=32", "dgx-h100:1"},
        BoundCase{"llama:layers=8,hidden=4096,heads=32,kv_heads=8,seq=2048,vocab=32000,batch=32",
                  "dgx-h100:1", 0.7},
        BoundCase{"moe:layers=4,hidden=2048,heads=16,experts=8,seq=1024,vocab=32000,batch=32",
                  "dgx-h100:2"},
        BoundCase{"bert:layers=8,hidden=1024,heads=16,seq=512,vocab=30522,batch=64", "dgx-h100:1"},
        BoundCase{"t5:layers=4,hidden=1024,heads=16,seq=512,vocab=32128,batch=32", "dgx-h100:1",
                  0.7}));

INSTANTIATE_TEST_SUITE_P(All, BoundsOfManyPlans, testing::Range(size_t{0}, BoundCases().size()));

}  // namespace
}  // namespace heddle
