// A stage that is copied from another is the stage that would have been built.
#include "program/alike_builds.h"

#include <gtest/gtest.h>

#include <set>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/testing.h"

namespace heddle {
namespace {

// What lowering knows when it builds stages.
struct Lowering {
  Model model;
  Plan plan;
  ExpandedPlan expanded = Expand(model, plan);
  Rules rules = MicroRules(expanded.model, plan.microbatches);
  LoweringContext context{expanded, plan, rules,  FindMicrobatchSums(expanded.model, false),
                          {},       {},   nullptr};

  Lowering(Model of, const Degrees& degrees)
      : model(std::move(of)), plan(ExpertPlan(model, LoadCluster("dgx-a100:1"), degrees)) {
    FindReaders(context);
  }
};

void ExpectSame(const std::map<ValueId, StageBuild::Crossing>& a,
                const std::map<ValueId, StageBuild::Crossing>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y) {
    EXPECT_EQ(x->first, y->first);
    EXPECT_EQ(x->second.local, y->second.local);
    EXPECT_EQ(x->second.gradients, y->second.gradients);
  }
}

// The number of stages that are built and not copied.
size_t ExpectCopiesAreBuilds(const Lowering& at) {
  StageBuilds builds = BuildStages(at.context);
  for (StageId s : builds.ids()) {
    SCOPED_TRACE(s);
    StageBuild own = BuildStage(at.context, s);
    EXPECT_TRUE(builds[s].stage == own.stage);
    ExpectSame(builds[s].sent, own.sent);
    ExpectSame(builds[s].received, own.received);
  }
  IdVector<StageId, StageId> first = FindAlikeStages(at.context).first;
  return std::set<StageId>(first.begin(), first.end()).size();
}

Degrees Interleaved() {
  return {.dp = 2, .pp = 4, .microbatches = 4, .chunks = 2, .schedule = "interleaved"};
}

// The first has the input, the last the loss, and one is between equal layers.
TEST(AlikeBuilds, LayersOfOneKindAreBuiltOnce) {
  EXPECT_EQ(ExpectCopiesAreBuilds(Lowering(SmallModel(8), Interleaved())), 3u);
}

TEST(AlikeBuilds, StagesThatRecomputeOtherwiseAreApart) {
  Lowering at(SmallModel(8), Interleaved());
  at.expanded.stages[3].recompute.assign(at.expanded.stages[3].recompute.size(),
                                         RecomputePolicy::kFull);
  EXPECT_EQ(ExpectCopiesAreBuilds(at), 4u);
}

// The last layer reads the weight of the first: both are trained by two stages.
TEST(AlikeBuilds, TiedStagesAreApart) {
  Lowering at(SmallModel(8, true), Interleaved());
  EXPECT_EQ(ExpectCopiesAreBuilds(at), 3u);
  EXPECT_EQ(FindAlikeStages(at.context).first[StageId{1}], StageId{1});
}

TEST(AlikeBuilds, StagesWithOtherStrategiesAreApart) {
  Lowering at(SmallModel(8), Interleaved());
  Stage& stage = at.expanded.stages[4];
  for (NodeId id : NodesOf(at.expanded.model, stage)) {
    stage.strategies[id.index()].assign(stage.mesh.axes.size(), kReplicate);
  }
  EXPECT_EQ(FindAlikeStages(at.context).first[StageId{4}], StageId{4});
}

TEST(AlikeBuilds, PrunedStagesAreBuiltEach) {
  Lowering at(SmallModel(8), Interleaved());
  at.plan.pruning.kept["w3"] = 7;
  EXPECT_EQ(ExpectCopiesAreBuilds(at), 8u);
}

}  // namespace
}  // namespace heddle
