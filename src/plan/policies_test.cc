#include "plan/policies.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

// DefOf looks entries up by the value's number.
template <typename Table, typename Policy>
void ExpectInOrder(const Table& table, Policy Table::value_type::*policy) {
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(table[i].*policy), i) << table[i].name;
    EXPECT_EQ(Name(table[i].*policy), table[i].name);
  }
}

TEST(Policies, TablesAreInTheOrderOfTheirValues) {
  ExpectInOrder(kRecomputePolicies, &RecomputeDef::policy);
  ExpectInOrder(kOffloads, &OffloadDef::offload);
  ExpectInOrder(kGradientSyncs, &GradientSyncDef::sync);
}

TEST(Policies, HelpNamesThemAll) {
  EXPECT_EQ(RecomputeHelp(), "activations in backward: none, selective, full");
  EXPECT_EQ(OffloadHelp(),
            "what lives on the host between its uses: none, optimizer, or all of it, in shards");
  EXPECT_EQ(ZeroHelp(), "ZeRO: 1 splits optimizer state over data, 2 gradients, 3 weights");
}

TEST(Policies, EachZeroLevelSplitsMore) {
  EXPECT_FALSE(SplitsState(0));
  EXPECT_TRUE(SplitsState(1) && !SplitsGradients(1));
  EXPECT_TRUE(SplitsGradients(2) && !SplitsWeights(2));
  EXPECT_TRUE(SplitsWeights(kMostZero));
}

}  // namespace
}  // namespace heddle
