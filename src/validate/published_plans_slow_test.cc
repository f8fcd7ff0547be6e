// The search finds a plan that is at least as fast for every complete published run. One test per source.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "validate/published_plans.h"

namespace heddle {
namespace {

std::vector<std::string> Sources() {
  std::set<std::string> sources;
  for (const PublishedRun& run : BundledRuns()) {
    if (IsComplete(run)) sources.insert(run.source_id);
  }
  return {sources.begin(), sources.end()};
}

class PublishedPlansSlowTest : public testing::TestWithParam<std::string> {};

TEST_P(PublishedPlansSlowTest, FoundPlansAreAtLeastAsFast) {
  for (const PublishedRun& run : BundledRuns()) {
    if (run.source_id != GetParam() || !IsComplete(run)) continue;
    SCOPED_TRACE(run.id);
    PlanComparison at = Compare(run);
    EXPECT_EQ(at.reason, "");
    EXPECT_TRUE(at.fits);
    EXPECT_LE(at.found_step, at.published_step * (1 + 1e-9)) << at.published << " | " << at.found;
  }
}

INSTANTIATE_TEST_SUITE_P(Sources, PublishedPlansSlowTest, testing::ValuesIn(Sources()),
                         [](const testing::TestParamInfo<std::string>& source) {
                           std::string name = source.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace heddle
