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
  EXPECT_EQ(RecomputeHelp(), "activations to recompute in backward: none, selective, full");
  EXPECT_EQ(
      OffloadHelp(),
      "what is kept on the host between uses: none, optimizer (its state), or all (in shards)");
  EXPECT_EQ(SyncHelp(),
            "how replicas agree on gradients: reduce: all-reduce them; server: one replica adds "
            "them up, updates and "
            "sends the weights; factors: all-gather the factors of a gradient, where it has some, "
            "and compute it whole; "
            "auto: factors where that is faster");
  EXPECT_EQ(ZeroHelp(),
            "ZeRO: 1 splits optimizer state over data ranks, 2 also gradients, 3 also weights");
}

TEST(Policies, EachZeroLevelSplitsMore) {
  EXPECT_FALSE(SplitsState(0));
  EXPECT_TRUE(SplitsState(1) && !SplitsGradients(1));
  EXPECT_TRUE(SplitsGradients(2) && !SplitsWeights(2));
  EXPECT_TRUE(SplitsWeights(kMostZero));
}

}  // namespace
}  // namespace heddle
