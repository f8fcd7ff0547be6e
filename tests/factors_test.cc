// Gradients and nodes that replicas compute whole instead of reducing gradients, for models and as plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "factor_check.h"
#include "ops/op.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "program/verify.h"
#include "run_binary.h"
#include "search/replicas/with_factors.h"
#include "search/searcher.h"
#include "search/solver/cbc.h"

namespace heddle {
namespace {

// VGG-19 on four devices in two machines. Most of its parameters are in its dense layers, which have few activations
// per sample.
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

// A chain of two products on four replicas: h of the first one and dy of the second are gathered; the input need not
// be.
TEST(Factors, CostsAreTheClosedForms) {
  Graph graph;
  graph.name = "products";
  ValueId x = graph.AddValue("x", {DType::kF32, {32, 64}}, ValueKind::kInput);
  ValueId w0 = graph.AddValue("w0", {DType::kF32, {64, 128}}, ValueKind::kParameter);
  ValueId w1 = graph.AddValue("w1", {DType::kF32, {128, 256}}, ValueKind::kParameter);
  ValueId h = AddOp(graph, "MatMul", {}, {x, w0}, "h")[0];
  ValueId y = AddOp(graph, "MatMul", {}, {h, w1}, "y")[0];
  Attributes all = {{"axes", std::vector<int64_t>{0, 1}}, {"keepdims", int64_t{0}}};
  graph.outputs = AddOp(graph, "ReduceSum", all, {AddOp(graph, "Exp", {}, {y}, "e")[0]}, "loss");
  FactorPlan at{Analyse(std::move(graph)), {}};
  at.plan = ExpertPlan(at.model, LoadCluster("v100x4:1"), {.dp = 4, .microbatches = 2});
  CostOptions options;
  options.parts = 2;
  options.microbatches = 2;
  StageCosts costs(at.model, at.plan.cluster, at.plan.stages[0].mesh, options);
  std::vector<StageCut> cuts = StageCuts(costs, at.plan, 0, Whole::kGradients);
  ASSERT_EQ(cuts.size(), 1u);
  Network network(at.plan.cluster, LinkEfficiency(at.plan.cluster, {}));
  MeshLinks links(network, at.plan.stages[0].mesh);
  const CutProblem& problem = cuts[0].problem;
  double reduce = links.BandwidthSeconds(CollectiveKind::kAllReduce, 1, 4 * 128 * 256);
  for (size_t i = 0; i < problem.operations.size(); ++i) {
    const StageOperation& operation = cuts[0].operations[i];
    EXPECT_EQ(problem.operations[i].forced, operation.kind != OperationKind::kWeight);
    if (operation.kind != OperationKind::kWeight || operation.value != w1) continue;
    const Strategy& part = at.plan.stages[0].strategies[operation.node.index()];
    double more = costs.FactorSeconds(operation.node, {kReplicate}, 1) -
                  costs.FactorSeconds(operation.node, part, 1);
    EXPECT_DOUBLE_EQ(problem.operations[i].linear, 2 * more + 1e-6 - reduce);
    std::vector<double> paid;  // cost of the gathers of its operands
    for (const CutValue& value : problem.values) {
      if (std::count(value.readers.begin(), value.readers.end(), i) > 0) paid.push_back(value.cost);
    }
    auto gather = [&](double columns) {  // 4 rows of each replica, in each of 2 micro-batches
      return 2 * links.Seconds(CollectiveKind::kAllGather, 1, 4 * 4 * columns);
    };
    EXPECT_THAT(paid, testing::UnorderedElementsAre(testing::DoubleEq(gather(128)),
                                                    testing::DoubleEq(gather(256))));
  }
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

// If a node is whole in all of its halves, its gradients need neither reduction nor factors.
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

// With fast links and many samples there is no gain.
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

TEST(Factors, CommandLine) {
  TempFolder folder;
  std::string plan = folder / "plan.json";
  std::string model = "vgg19 --cluster 1080tix2:2 --batch 8 --dp 4 --precision f32 --sync ";
  RunOutput run = RunHeddle("plan " + model + "auto --json -o " + plan);
  ASSERT_EQ(run.status, 0) << run.err;
  Json planned = ParseJson(run.out, "plan");
  EXPECT_GT(planned["factors"]["parameters"], 0);
  EXPECT_LT(planned["step_seconds"], planned["factors"]["reduced_step_seconds"]);
  run = RunHeddle("explain --json --budget 0.1 " + plan);
  ASSERT_EQ(run.status, 0) << run.err;
  Json explained = ParseJson(run.out, "explain");
  EXPECT_EQ(explained["factors"],
            (Json{{"parameters", planned["factors"]["parameters"]},
                  {"reduced_step_seconds", planned["factors"]["reduced_step_seconds"]}}));
  run = RunHeddle("plan " + model + "reduce --json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(ParseJson(run.out, "plan")["factors"], Json());
  ExpectRefused("plan " + model + "atuo", {"--sync atuo", "auto"});
}

}  // namespace
}  // namespace heddle
