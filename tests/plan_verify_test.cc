// Verify(Plan) reports every broken rule.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/error.h"
#include "base/log.h"
#include "plan/verify.h"
#include "tiny_plan.h"

namespace heddle {
namespace {

struct Broken {
  std::string message;  // part of the message
  std::function<void(Plan&)> breaks;
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class VerifyPlan : public ::testing::Test {
 protected:
  VerifyPlan() : model_(LoadTiny("tiny-gpt2")) {
    SetLogLevel(LogLevel::kQuiet);
    plan_ = ExpertPlan(model_, LoadCluster("local:16"),
                       {.dp = 2, .tp = 2, .pp = 2, .microbatches = 2, .chunks = 2, .zero = 1});
    SetLogLevel(LogLevel::kInfo);
  }

  // The node that makes a value, and its strategy on its stage.
  size_t Node(const std::string& value) const {
    for (size_t n = 0; n < model_.graph.nodes.size(); ++n) {
      if (model_.graph.value(model_.graph.nodes[n].results[0]).name == value) return n;
    }
    return 0;
  }
  Strategy& At(Plan& plan, const std::string& value) const {
    for (Stage& stage : plan.stages) {
      if (!stage.strategies[Node(value)].empty()) return stage.strategies[Node(value)];
    }
    return plan.stages[0].strategies[0];
  }

  void Check(const std::vector<Broken>& all) {
    ASSERT_EQ(Verify(plan_, model_), std::vector<std::string>());
    for (const Broken& broken : all) {
      Plan plan = plan_;
      broken.breaks(plan);
      std::vector<std::string> problems = Verify(plan, model_);
      bool found = std::any_of(problems.begin(), problems.end(), [&](const std::string& line) {
        return line.find(broken.message) != std::string::npos;
      });
      EXPECT_TRUE(found) << "no '" << broken.message << "' in\n"
                         << fmt::format("{}", fmt::join(problems, "\n"));
    }
  }

  Model model_;
  Plan plan_;
};

TEST_F(VerifyPlan, ModelClusterAndBatch) {
  Check({
      {"the plan is for another model", [](Plan& p) { p.model.hash ^= 1; }},
      {"cluster: ", [](Plan& p) { p.cluster.device_types[0].memory = Bytes{0}; }},
      {"batch is 8, the model's is 4", [](Plan& p) { p.batch = 8; }},
      {"batch is 0, must be at least 1", [](Plan& p) { p.batch = 0; }},
      {"microbatches is 0, must be at least 1", [](Plan& p) { p.microbatches = 0; }},
      {"a batch of 4 is not divisible into 3 micro-batches", [](Plan& p) { p.microbatches = 3; }},
  });
}

TEST_F(VerifyPlan, StagesAndMeshes) {
  Check({
      {"there are no stages", [](Plan& p) { p.stages.clear(); }},
      {"stage 1 begins with block", [](Plan& p) { ++p.stages[1].first_block; }},
      {"stage 2 has no blocks", [](Plan& p) { p.stages[2].last_block = p.stages[2].first_block; }},
      {"the last stage ends with block 8, the model has 9",
       [](Plan& p) { --p.stages[3].last_block; }},
      {"the mesh has 6 axes, at most 5",
       [](Plan& p) {
         for (std::string name : {"a", "b", "c", "d"}) p.stages[0].mesh.axes.push_back({name, 1});
       }},
      {"axis 'DP': a name is", [](Plan& p) { p.stages[0].mesh.axes[0].name = "DP"; }},
      {"axis '': a name is 1 to 16", [](Plan& p) { p.stages[0].mesh.axes[0].name = ""; }},
      {"axis 'abcdefghijklmnopq': a name is",
       [](Plan& p) { p.stages[0].mesh.axes[0].name = "abcdefghijklmnopq"; }},
      {"axis 'tp' is named twice", [](Plan& p) { p.stages[0].mesh.axes[0].name = "tp"; }},
      {"axis tp has size 0", [](Plan& p) { p.stages[0].mesh.axes[1].size = 0; }},
      {"4 devices from device 14 on are not within the cluster's 16",
       [](Plan& p) { p.stages[0].mesh.first = 14; }},
      {"from device -1 on", [](Plan& p) { p.stages[0].mesh.first = -1; }},
      {"are not within the cluster's 16",
       [](Plan& p) {
         for (MeshAxis& axis : p.stages[0].mesh.axes) axis.size = int64_t{1} << 62;
       }},
      {"axis dp has 3 shares for 2 devices",
       [](Plan& p) {
         p.stages[0].mesh.axes[0].shares = {1, 1, 1};
       }},
      {"axis dp has a share of 0, must be 1 to the 2 samples of a micro-batch",
       [](Plan& p) {
         p.stages[0].mesh.axes[0].shares = {2, 0};
       }},
      {"axis dp has shares of 3 in all, which do not divide the 2 samples",
       [](Plan& p) {
         p.stages[0].mesh.axes[0].shares = {2, 1};
       }},
      {"over tp, whose unlike shares are of the batch",
       [](Plan& p) {
         p.stages[0].mesh.axes[1].shares = {1, 1};
       }},
      {"stages 0 and 1 are on some of the same devices: with 2 chunks stage i is on the devices of "
       "stage i mod 2 and on no others",
       [](Plan& p) { p.stages[1].mesh.first = 2; }},
      {"5 devices from 0 on are named for a mesh of 4 from 0 on",
       [](Plan& p) {
         p.stages[0].mesh.named = {0, 1, 2, 3, 5};
       }},
      {"stage 0: the devices it names do not ascend",
       [](Plan& p) {
         p.stages[0].mesh.named = {0, 2, 1, 3};
       }},
      {"stage 0: devices 0..2, 16..16 are not within the cluster's 16",
       [](Plan& p) {
         p.stages[0].mesh.named = {0, 1, 2, 16};
       }},
      {"3 chunks do not divide 4 stages", [](Plan& p) { p.chunks = 3; }},
      {"0 chunks do not divide", [](Plan& p) { p.chunks = 0; }},
      {"stages 0 and 2 are on other devices: with 2 chunks",
       [](Plan& p) { std::swap(p.stages[2].mesh.first, p.stages[3].mesh.first); }},
  });
}

// With one chunk, stages may share devices. Stages with a tied parameter must share all devices or none.
TEST_F(VerifyPlan, StagesThatShareDevices) {
  plan_.chunks = 1;
  EXPECT_EQ(Verify(plan_, model_), std::vector<std::string>());
  Place(plan_.stages[1].mesh, {1, 3, 5, 9});
  EXPECT_EQ(Verify(plan_, model_), std::vector<std::string>());
  Place(plan_.stages[3].mesh, {1, 3, 5, 9});
  std::vector<std::string> problems = Verify(plan_, model_);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("which share some of their devices but not all"), std::string::npos);
}

TEST_F(VerifyPlan, StrategiesAndTheirLikes) {
  Check({
      {"Linear 'view_2' has 1 choices for 2 axes", [&](Plan& p) { At(p, "view_2").pop_back(); }},
      {"Linear 'view_2' has no factor 9 to split over tp: there are 4",
       [&](Plan& p) { At(p, "view_2")[1] = Split(9); }},
      {"LayerNorm 'layer_norm' cannot split factor c0 over tp: it is whole",
       [&](Plan& p) { At(p, "layer_norm")[1] = Split(2); }},
      {"Linear 'view_2' has no linear set 7",
       [&](Plan& p) { At(p, "view_2")[1] = PassPartial(7); }},
      {"Gather 'embedding' has 0 choices for 2 axes", [&](Plan& p) { At(p, "embedding").clear(); }},
      {"has a strategy but is not the stage's",
       [&](Plan& p) {
         p.stages[3].strategies[Node("embedding")] = {kReplicate, kReplicate};
       }},
      {"strategies for 3 nodes", [](Plan& p) { p.stages[1].strategies.resize(3); }},
      {"recompute has", [](Plan& p) { p.stages[1].recompute.pop_back(); }},
      {"the forward time is inf, must be positive and finite",
       [](Plan& p) { p.stages[1].times.forward = std::numeric_limits<double>::infinity(); }},
      {"the backward time is 0", [](Plan& p) { p.stages[1].times.backward = 0; }},
      {"the weight time is nan", [](Plan& p) { p.stages[1].times.weight = kNan; }},
      {"parameter 'm.lm_head.weight' is stored as [256/tp,64] on stage 0 (Gather 'embedding') and "
       "as [256,64] "
       "on stage 3 (Linear 'linear')",
       [&](Plan& p) { At(p, "linear")[1] = kReplicate; }},
      {"is stored as [256/tp,64] on stage 0 (Gather 'embedding') and as [256/xp,64] on stage 3",
       [](Plan& p) { p.stages[3].mesh.axes[1].name = "xp"; }},
  });
}

// The nodes of a stage without axes have empty strategies but still belong to the stage.
TEST_F(VerifyPlan, ParametersOfStagesWithoutAxes) {
  Plan plan = ExpertPlan(model_, LoadCluster("local:3"), {.pp = 2});
  for (Stage& stage : plan.stages) {
    stage.mesh.axes.clear();
    for (Strategy& strategy : stage.strategies) strategy.clear();
  }
  ASSERT_EQ(Verify(plan, model_), std::vector<std::string>());
  Stage& last = plan.stages[1];
  last.mesh.axes = {{"tp", 2}};
  std::vector<NodeId> nodes = NodesOf(model_, last), side = SideNodesOf(model_, nodes);
  nodes.insert(nodes.end(), side.begin(), side.end());
  for (NodeId id : nodes) last.strategies[id.index()] = {kReplicate};
  std::vector<std::string> problems = Verify(plan, model_);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("parameter 'm.lm_head.weight' is stored as [256,64] on stage 0"),
            std::string::npos)
      << problems[0];
}

// No op has such a rule, so the test makes one.
TEST_F(VerifyPlan, ExpandedFactorsWhereTheOpHasNoExpansion) {
  At(plan_, "view_2")[0] = Split(0);
  Rule expanded = model_.rules[Node("view_2")];
  expanded.factors[0].kind = FactorKind::kExpanded;
  model_.rules.Set(Node("view_2"), std::make_shared<const Rule>(std::move(expanded)));
  std::vector<std::string> problems = Verify(plan_, model_);
  bool found = std::any_of(problems.begin(), problems.end(), [](const std::string& line) {
    return line.find("'view_2' cannot split factor") != std::string::npos;
  });
  EXPECT_TRUE(found) << fmt::format("{}", fmt::join(problems, "\n"));
}

TEST_F(VerifyPlan, TheRest) {
  Check({
      {"schedule has no name", [](Plan& p) { p.schedule = ""; }},
      {"optimizer has no name", [](Plan& p) { p.optimizer = ""; }},
      {"precision of compute is f64, must be f32, bf16 or f16",
       [](Plan& p) { p.precision.compute = DType::kF64; }},
      {"precision of gradients is i8", [](Plan& p) { p.precision.gradients = DType::kI8; }},
      {"precision of gradients is f64, must be f32, bf16 or f16",
       [](Plan& p) { p.precision.gradients = DType::kF64; }},
      {"precision of master is f16, must be f32 or bf16",
       [](Plan& p) { p.precision.master = DType::kF16; }},
      {"precision of moments is f16", [](Plan& p) { p.precision.moments = DType::kF16; }},
      {"products of fp8 are made of bf16 or f16",
       [](Plan& p) { p.precision.products = Products::kFp8; }},
      {"offload: device 'cpu-core' has no link to its host",
       [](Plan& p) {
         p.offload = Offload::kOptimizer;
         p.cluster.device_types[0].host = {};
       }},
      {"zero level is 4", [](Plan& p) { p.zero.level = 4; }},
      {"zero level is -1, must be 0 to 3", [](Plan& p) { p.zero.level = -1; }},
      {"zero names axis 'xp', which no mesh has", [](Plan& p) { p.zero.axes = {"xp"}; }},
      {"zero names axis 'dp' twice",
       [](Plan& p) {
         p.zero.axes = {"dp", "dp"};
       }},
      {"bucket_bytes is 0", [](Plan& p) { p.bucket_bytes = 0; }},
      {"prefetch is 65, must be 0 to 64", [](Plan& p) { p.prefetch = 65; }},
      {"prefetch is -1", [](Plan& p) { p.prefetch = -1; }},
  });
}

TEST_F(VerifyPlan, Sync) {
  std::map<std::string, ValueId> named;
  for (ValueId id : model_.graph.ValuesOf(ValueKind::kParameter))
    named[model_.graph.value(id).name] = id;
  ValueId tied = named.at("m.lm_head.weight"), norm, product;
  size_t with_norm = 0, with_product = 0;
  for (size_t n = 0; n < model_.graph.nodes.size(); ++n) {
    const heddle::Node& node = model_.graph.nodes[n];
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      if (plan_.stages[s].strategies[n].empty() || node.operands.size() < 2) continue;
      if (node.op == "LayerNorm") norm = node.operands[1], with_norm = s;
      if (node.op == "Linear" && node.operands[1] != tied)
        product = node.operands[1], with_product = s;
    }
  }
  constexpr GradientSync kServer = GradientSync::kServer, kFactors = GradientSync::kFactors;
  plan_.stages[with_product].sync[product] = kFactors;
  plan_.stages[with_norm].sync[norm] = kServer;
  Check({
      {"sync names value 9999, which the model does not have",
       [](Plan& p) { p.stages[0].sync[ValueId{9999}] = kFactors; }},
      {"cannot have sync factors: the stage reads no such parameter",
       [&](Plan& p) { p.stages[(with_product + 1) % 4].sync[product] = kFactors; }},
      {"cannot have sync server: the stage reads no such parameter",
       [&](Plan& p) { p.stages[0].sync[model_.graph.nodes[0].results[0]] = kServer; }},
      {"cannot have sync factors: LayerNorm has no factors of the gradient of its operand 1",
       [&](Plan& p) { p.stages[with_norm].sync[norm] = kFactors; }},
      {"'m.lm_head.weight' cannot have sync server: stage 3 reads it, too",
       [&](Plan& p) { p.stages[0].sync[tied] = kServer; }},
      {"'m.lm_head.weight' cannot have sync factors: another stage that reads it has another",
       [&](Plan& p) { p.stages[0].sync[tied] = kFactors; }},
      {"ZeRO 2 shares out the gradients among the replicas: use 0 or 1",
       [](Plan& p) { p.zero.level = 2; }},
  });
  Plan one = ExpertPlan(model_, LoadCluster("local:2"), {.dp = 2});
  one.stages[0].sync[tied] = kFactors;
  EXPECT_EQ(Verify(one, model_),
            (std::vector<std::string>{"stage 0: 'm.lm_head.weight' cannot have sync factors: 2 "
                                      "nodes read it, must be 1"}));
  model_.flow.needed[product.index()] = false;
  EXPECT_NE(Verify(plan_, model_)[0].find("cannot have sync factors: it is not trained"),
            std::string::npos);
  EXPECT_THROW(ExpertPlan(model_, LoadCluster("local:2"), {.dp = 2, .zero = 2, .sync = kFactors}),
               InputError);
}

TEST_F(VerifyPlan, MicrobatchesWhereANodeTakesStatistics) {
  Model model = Analyse(LoadModel("resnet18"));
  Plan plan = ExpertPlan(model, LoadCluster("local:1"), {});
  EXPECT_EQ(Verify(plan, model), std::vector<std::string>());
  plan.microbatches = 2;
  ASSERT_EQ(Verify(plan, model).size(), 1u);
  EXPECT_NE(Verify(plan, model)[0].find("takes statistics over the whole batch"),
            std::string::npos);
  plan.local_batch_statistics = true;
  EXPECT_EQ(Verify(plan, model), std::vector<std::string>());
}

TEST_F(VerifyPlan, RequireSoundThrowsTheFirstAndCountsTheRest) {
  EXPECT_NO_THROW(RequireSound(plan_, model_, "p.json"));
  plan_.schedule = "";
  plan_.optimizer = "";
  try {
    RequireSound(plan_, model_, "p.json");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "p.json: schedule has no name (and 1 more)");
  }
}

}  // namespace
}  // namespace heddle
