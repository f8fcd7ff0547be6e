// What replicas compute whole in place of reducing gradients, for models and as plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "factor_check.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "program/verify.h"
#include "search/cbc.h"
#include "search/searcher.h"
#include "search/with_factors.h"

namespace heddle {
namespace {

// VGG-19 on four devices in two machines: most of its parameters are those of its dense layers, and a sample has few
// activations there.
FactorPlan SlowVgg() { return PlanOf({"vgg19", "1080tix2:2", 4, 8}); }

double StepOf(const Model& model, const Plan& plan) {
  Program program = Lower(model, plan);
  EXPECT_EQ(Verify(program), std::vector<std::string>{});
  return Simulate(program, plan.cluster, {}).step_seconds;
}

TEST(Factors, CutsOfModelsAreCbcs) {
  if (!HasCbc()) GTEST_SKIP() << "built without CBC";
  int problems = 0;
  std::vector<FactorCase> cases = FactorCases();
  cases.resize(kSmallFactorCases);  // factors_slow_test has the others
  for (const FactorCase& at : cases) {
    SCOPED_TRACE(at.model + " on " + at.cluster);
    FactorPlan plan = PlanOf(at);
    problems += CheckCuts(plan, Whole::kHalves) + CheckCuts(plan, Whole::kNodes);
  }
  EXPECT_GE(problems, 20);
}

TEST(Factors, PlansAreSoundAndFaster) {
  FactorPlan at = SlowVgg();
  double reduced = StepOf(at.model, at.plan);
  for (Whole what : {Whole::kGradients, Whole::kNodes}) {
    std::optional<Factored> made = WithFactors(at.model, at.plan, {}, what);
    ASSERT_TRUE(made);
    EXPECT_EQ(Verify(made->plan, at.model), std::vector<std::string>{});
    EXPECT_EQ(CountSync(made->plan, GradientSync::kFactors), made->parameters);
    EXPECT_LT(StepOf(at.model, made->plan), 0.7 * reduced);
    EXPECT_EQ(WithFactors(at.model, at.plan, {}, what)->plan, made->plan);
  }
}

// A node is whole in all its halves, and then its gradients need neither reduction nor factors.
TEST(Factors, WholeNodesHaveNoFactors) {
  FactorPlan at = SlowVgg();
  std::optional<Factored> made = WithFactors(at.model, at.plan, {}, Whole::kNodes);
  ASSERT_TRUE(made);
  EXPECT_GT(made->nodes, 0);
  const Stage& stage = made->plan.stages[0];
  int64_t whole = 0;
  for (size_t n = 0; n < at.model.graph.nodes.size(); ++n) {
    if (stage.strategies[n] == at.plan.stages[0].strategies[n]) continue;
    ++whole;
    EXPECT_EQ(stage.strategies[n], Strategy{kReplicate});
    for (ValueId operand : at.model.graph.nodes[n].operands) {
      EXPECT_EQ(stage.sync.count(operand), 0u);
    }
  }
  EXPECT_EQ(whole, made->nodes);
}

TEST(Factors, NotWithoutReplicasNorWhereGradientsAreSplit) {
  FactorPlan at = SlowVgg();
  at.plan.zero = {2, {"dp"}};
  EXPECT_FALSE(WithFactors(at.model, at.plan, {}, Whole::kGradients));
  FactorPlan alone = PlanOf({"vgg19", "1080tix2:2", 1, 8});
  EXPECT_FALSE(WithFactors(alone.model, alone.plan, {}, Whole::kNodes));
}

// Among fast links, with many samples, nothing is to be gained.
TEST(Factors, NotWhereReducingIsCheaper) {
  FactorPlan at = PlanOf({"resnet50", "dgx-h100:1", 8, 1024});
  EXPECT_FALSE(WithFactors(at.model, at.plan, {}, Whole::kGradients));
  EXPECT_FALSE(WithFactors(at.model, at.plan, {}, Whole::kNodes));
}

TEST(Factors, TheSearchWeighsThem) {
  FactorPlan at = SlowVgg();
  SearchProblem problem{.model = at.model, .cluster = at.plan.cluster};
  problem.precision = DType::kF32;
  problem.fixed.dp = 4;
  problem.fixed.zero = 0;
  SearchResult result = Search(*FindSearcher("data"), problem);
  ASSERT_TRUE(result.feasible());
  const JudgedPlan& best = result.judged.front();
  ASSERT_TRUE(best.factors);
  EXPECT_LT(best.result.step_seconds, best.factors->reduced_seconds);
  EXPECT_EQ(CountSync(best.plan, GradientSync::kFactors), best.factors->parameters);
}

}  // namespace
}  // namespace heddle
