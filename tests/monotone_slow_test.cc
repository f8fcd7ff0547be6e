// Compares the search without constraints with many constrained searches, on all problems of
// monotone_cases.h.
//
//   heddle_whole_slow_test --gtest_filter='*Monotone*p08*'       one problem by its index
//   heddle_whole_slow_test --gtest_filter='*Monotone*llama3*'    those with a name
//   scripts/monotone-table build                                 all of them, one table
//
// HEDDLE_MONOTONE_SEED selects other constraints, HEDDLE_MONOTONE_CONSTRAINTS sets their number per
// problem.
#include <gtest/gtest.h>

#include <cstdlib>

#include "monotone_check.h"

namespace heddle {
namespace {

int64_t MonotoneSetting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

class Monotone : public testing::TestWithParam<MonotonePart> {};

TEST_P(Monotone, NoConstraintIsFaster) {
  auto seed = static_cast<uint64_t>(MonotoneSetting("HEDDLE_MONOTONE_SEED", 1));
  auto constraints = static_cast<int>(MonotoneSetting("HEDDLE_MONOTONE_CONSTRAINTS", 12));
  const MonotoneCase& at = GetParam().problem;
  MonotoneCheck check(at, seed);
  check.Run(constraints, /*own=*/14, GetParam().part);
  fmt::print("{}", check.bytes().Table());
  fmt::print("{}\nworst: {}\n", check.bytes().Summary(), check.bytes().worst());
  fmt::print("summary: {}\n", check.Summary());
  EXPECT_TRUE(check.feasible());
  EXPECT_GE(at.parts * check.tried(), constraints);
  EXPECT_GE(2 * check.excluding(), check.tried());
  EXPECT_EQ(check.bytes().wrongly_fits(), 0);
  for (const MonotoneViolation& violation : check.Violations()) {
    fmt::print("violation: {}\n", violation.text);
    ADD_FAILURE() << violation.text.substr(0, violation.text.find('\n'));
  }
  EXPECT_EQ(check.bytes().within(ByteErrors::kAllowed), check.bytes().estimated())
      << check.bytes().worst();
}

INSTANTIATE_TEST_SUITE_P(All, Monotone, testing::ValuesIn(PartsOf(MonotoneCases())),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace heddle
