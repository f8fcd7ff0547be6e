#include "search/spilling/shards.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/rng.h"
#include "fleet/job_work.h"

namespace heddle {
namespace {

ModelCosts RandomCosts(uint64_t seed) {
  uint64_t counter = 0;
  auto below = [&](uint64_t bound) {
    return static_cast<int64_t>(RandomBelow(bound, seed, 0, counter++));
  };
  ModelCosts costs;
  costs.units = static_cast<int>(1 + below(9));
  for (ListCosts* list : {&costs.recomputed, &costs.whole}) {
    list->kept.push_back(0);
    for (int u = 0; u < costs.units; ++u) {
      list->forward.push_back(static_cast<double>(1 + below(5)));
      list->again.push_back(list == &costs.whole ? 0 : list->forward.back());
      list->backward.push_back(2 * list->forward.back());
      list->most_forward.push_back(list->kept.back() + 1 + below(10));
      list->most_backward.push_back(list->kept.back() + 5 + below(10));
      list->kept.push_back(list->kept.back() + below(5));
    }
  }
  for (int u = 0; u < costs.units; ++u) {
    costs.block_ends.push_back(u + 1);
    costs.keeps.push_back(false);
    costs.joined.push_back(u > 0 && below(3) == 0);
  }
  for (int c = 0; c <= costs.units; ++c) {
    costs.cut.push_back(below(4));
    costs.cut_gradients.push_back(below(4));
  }
  for (int64_t p = below(12); p >= 0; --p) {
    ParameterCost cost;
    cost.weights = cost.copied = cost.gradients = 1 + below(8);
    cost.state = 2 * cost.weights;
    cost.units = {static_cast<int>(below(static_cast<uint64_t>(costs.units)))};
    if (below(4) == 0 && cost.units[0] + 1 < costs.units) cost.units.push_back(costs.units - 1);
    costs.parameters.push_back(cost);
  }
  return costs;
}

// Tries all choices to cut, by the definition in the header.
std::optional<std::vector<int>> CutByTrying(const ModelCosts& costs, const ShardLimits& limits) {
  struct CutChoice {
    std::vector<int> ends;
    double longest = 0;
    int64_t bytes = 0;
  };
  std::vector<CutChoice> choices;
  size_t fewest = std::numeric_limits<size_t>::max();
  for (uint32_t cuts = 0; cuts < uint32_t{1} << (costs.units - 1); ++cuts) {
    CutChoice choice;
    int first = 0;
    bool fits = true;
    for (int end = 1; end <= costs.units && fits; ++end) {
      if (end < costs.units && (cuts >> (end - 1) & 1) == 0) continue;
      ShardCost shard = CostOfShard(costs, first, end);
      fits = shard.peak() <= limits.memory && shard.fetch() <= limits.buffer;
      choice.longest = std::max(choice.longest, shard.seconds());
      auto e = static_cast<size_t>(end);
      choice.bytes += costs.cut[e] + costs.cut_gradients[e];
      choice.ends.push_back(end);
      first = end;
    }
    if (!fits || choice.ends.size() > fewest) continue;
    if (choice.ends.size() < fewest) choices.clear();
    fewest = choice.ends.size();
    choices.push_back(std::move(choice));
  }
  if (choices.empty()) return std::nullopt;
  double longest = std::numeric_limits<double>::infinity();
  for (const CutChoice& choice : choices) longest = std::min(longest, choice.longest);
  std::erase_if(choices, [&](const CutChoice& choice) {
    return choice.longest > longest * (1 + limits.balance);
  });
  std::sort(choices.begin(), choices.end(), [](const CutChoice& a, const CutChoice& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.ends < b.ends;
  });
  return choices.front().ends;
}

TEST(ShardsTest, CutsAsTryingAllWaysDoes) {
  int found = 0, several = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    ModelCosts costs = RandomCosts(seed);
    ShardLimits limits{.memory = static_cast<int64_t>(20 + seed % 160),
                       .buffer = static_cast<int64_t>(10 + seed % 80),
                       .balance = seed % 2 == 0 ? 0.05 : 0.5};
    std::optional<std::vector<int>> ends = CutIntoShards(costs, limits);
    EXPECT_EQ(ends, CutByTrying(costs, limits)) << "seed " << seed;
    found += ends.has_value();
    several += ends.has_value() && ends->size() > 1;
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(several, 50);
  EXPECT_LT(found, 500);
}

TEST(ShardsTest, WorkIsForwardThenBackward) {
  ModelCosts costs = RandomCosts(2);
  ASSERT_GT(costs.units, 3);
  JobWork work = WorkOf(costs, {1, 3, costs.units});
  std::vector<std::pair<int, bool>> order;
  for (const ShardRun& run : work.runs) order.push_back({run.shard, run.backward});
  EXPECT_EQ(order, (std::vector<std::pair<int, bool>>{
                       {0, false}, {1, false}, {2, true}, {1, true}, {0, true}}));
  EXPECT_EQ(work.runs[0].boundary_out, work.runs[1].boundary_in);
  EXPECT_EQ(work.runs[2].boundary_out, work.runs[3].boundary_in);
  EXPECT_GT(work.host_bytes, 0);
}

TEST(ShardsTest, SaysWhatIsMissing) {
  ModelCosts costs = RandomCosts(2);
  FleetShards none = CutFleet({&costs}, 8);
  EXPECT_FALSE(none.feasible);
  EXPECT_EQ(none.worst, 0);
  FleetShards fits = CutFleet({&costs}, 64 * none.needed);
  EXPECT_TRUE(fits.feasible);
  EXPECT_EQ(fits.ends[0].back(), costs.units);
}

// A shard that keeps its activations does not recompute but copies them. In both cases its costs are the sums of its
// units.
TEST(ShardsTest, KeptUnitsAreNotRecomputed) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    ModelCosts costs = RandomCosts(seed);
    ModelCosts none = KeepOnHost(costs, 1, -1e9), all = KeepOnHost(costs, 1, 1e9);
    EXPECT_EQ(none.recomputed.kept, costs.recomputed.kept);
    EXPECT_EQ(none.recomputed.most_backward, costs.recomputed.most_backward);
    EXPECT_EQ(none.recomputed.again, costs.recomputed.again);
    EXPECT_EQ(all.recomputed.kept, costs.whole.kept);
    EXPECT_EQ(all.recomputed.most_forward, costs.whole.most_forward);
    EXPECT_EQ(all.recomputed.again, costs.whole.again);
    // Copying one byte takes a second here, so only some units are kept.
    ModelCosts some = KeepOnHost(costs, 1, 0.5);
    for (size_t u = 0; u < some.keeps.size(); ++u) {
      int64_t more = costs.whole.kept[u + 1] - costs.whole.kept[u] - costs.recomputed.kept[u + 1] +
                     costs.recomputed.kept[u];
      EXPECT_EQ(some.keeps[u], static_cast<double>(more) <= 0.5 * costs.recomputed.again[u]);
    }
    if (costs.units < 2) continue;
    ShardCost kept = CostOfShard(all, 0, costs.units - 1);
    EXPECT_EQ(kept.kept, costs.whole.kept[static_cast<size_t>(costs.units) - 1]);
  }
}

}  // namespace
}  // namespace heddle
