// Plan files: a written plan reads back the same, and every mistake gives an error.
#include "plan/plan_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "tiny_plan.h"

namespace heddle {
namespace {

class PlanFile : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kQuiet);
    model_ = LoadTiny("tiny-gpt2");
    plan_ = ExpertPlan(model_, LoadCluster("local:16"),
                       {.dp = 2, .tp = 2, .pp = 3, .microbatches = 2, .zero = 1});
    plan_.model.source = "tiny-gpt2.onnx";
    json_ = ParseJson(ToJson(plan_, model_), "plan.json");
  }
  void TearDown() override { SetLogLevel(LogLevel::kInfo); }

  // The error after a change of the file.
  std::string Refusal(const std::string& pointer, const Json& value) {
    Json json = json_;
    json[Json::json_pointer(pointer)] = value;
    return RefusalOf(json);
  }
  std::string RefusalOf(const Json& json) {
    try {
      FromJson(json, model_, "plan.json");
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }

  Model model_;
  Plan plan_;
  Json json_;
};

TEST_F(PlanFile, ReadsBackAsItself) {
  for (const std::string& name : kTinyModels) {
    Model model = LoadTiny(name);
    for (const Degrees& degrees : ManyDegrees()) {
      if (!Fits(name, degrees)) continue;
      Plan plan = ExpertPlan(model, LoadCluster("local:16"), degrees);
      plan.model = {name + ".onnx", plan.model.hash, true, {{"batch", 4}}, {"*.bias"}};
      std::string text = ToJson(plan, model);
      EXPECT_EQ(text, ToJson(plan, model));
      Plan again = FromJson(ParseJson(text, "plan.json"), model, "plan.json");
      EXPECT_EQ(again, plan) << text;
      EXPECT_EQ(ToJson(again, model), text);
    }
  }
}

TEST_F(PlanFile, LargeModelsHaveSmallFiles) {
  Model model = Analyse(LoadModel("gpt3-175b"));
  Plan plan =
      ExpertPlan(model, LoadCluster("dgx-h100:128"), {.dp = 8, .tp = 8, .pp = 16, .sp = true});
  std::string text = ToJson(plan, model);
  EXPECT_LT(text.size(), 10'000u);
  EXPECT_NE(text.find("\"chain 0\": \"as stage 0\""), std::string::npos);
  EXPECT_EQ(FromJson(ParseJson(text, "plan.json"), model, "plan.json"), plan);
}

TEST_F(PlanFile, ExceptionsAndMixedRecomputationReadBack) {
  Stage& stage = plan_.stages[0];
  stage.recompute.back() = RecomputePolicy::kSelective;
  size_t changed = 0;
  for (size_t n = 0; n < stage.strategies.size(); ++n) {
    if (stage.strategies[n].empty() || model_.graph.nodes[n].op != "Gelu") continue;
    stage.strategies[n] = {kReplicate, Split(1)};
    ++changed;
  }
  ASSERT_GT(changed, 0u);
  plan_.stages[1].strategies
      [model_.blocks[static_cast<size_t>(plan_.stages[1].first_block)].nodes[0].index()] = {
      kReplicate, kReplicate};
  std::string text = ToJson(plan_, model_);
  EXPECT_EQ(FromJson(ParseJson(text, "plan.json"), model_, "plan.json"), plan_) << text;
}

TEST_F(PlanFile, PrecisionsReadBack) {
  EXPECT_EQ(json_["precision"].contains("products"), false);
  for (DType compute : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (DType gradients : {DType::kF32, DType::kBF16, DType::kF16}) {
      plan_.precision = {compute, gradients, DType::kF32, DType::kBF16};
      if (compute != DType::kF32) plan_.precision.products = Products::kFp8;
      std::string text = ToJson(plan_, model_);
      EXPECT_EQ(FromJson(ParseJson(text, "plan.json"), model_, "plan.json"), plan_) << text;
    }
  }
}

TEST_F(PlanFile, AStoppedSearchReadsBack) {
  EXPECT_FALSE(json_.contains("search_stopped"));
  plan_.search_stopped = true;
  Json json = ParseJson(ToJson(plan_, model_), "plan.json");
  EXPECT_EQ(json["search_stopped"], true);
  Plan again = FromJson(json, model_, "plan.json");
  EXPECT_EQ(again, plan_);
  EXPECT_EQ(ToJson(again, model_), ToJson(plan_, model_));
  EXPECT_EQ(Refusal("/search_stopped", "budget"),
            "plan.json: search_stopped: \"budget\": expected true or false");
}

TEST_F(PlanFile, SharesReadBack) {
  SetLogLevel(LogLevel::kQuiet);
  Plan plan = ExpertPlan(model_, LoadCluster("local:4"), {.dp = 2, .tp = 2, .shares = {3, 1}});
  SetLogLevel(LogLevel::kInfo);
  plan.model = plan_.model;
  Json json = ParseJson(ToJson(plan, model_), "plan.json");
  EXPECT_EQ(json["stages"][0]["mesh"]["dp"], Json::array({3, 1}));
  EXPECT_EQ(FromJson(json, model_, "plan.json"), plan);
  json["stages"][0]["mesh"]["dp"] = {3, "one"};
  EXPECT_EQ(RefusalOf(json),
            "plan.json: stages[0].mesh.dp: [3,\"one\"]: a share is a whole number of samples");
  json["stages"][0]["mesh"]["dp"] = {1, 1, 1, 1, 1};
  EXPECT_EQ(RefusalOf(json),
            "plan.json: stages[0].mesh.dp: [1,1,1,1,1]: 5 shares for a stage of 4 devices");
}

TEST_F(PlanFile, NamedDevicesReadBack) {
  SetLogLevel(LogLevel::kQuiet);
  Plan plan = ExpertPlan(model_, LoadCluster("local:8"), {.dp = 2, .pp = 2});
  SetLogLevel(LogLevel::kInfo);
  plan.model = plan_.model;
  Place(plan.stages[1].mesh, {3, 5});
  Json json = ParseJson(ToJson(plan, model_), "plan.json");
  EXPECT_EQ(json["stages"][1]["devices"], Json::parse("[[3, 3], [5, 5]]"));
  EXPECT_EQ(FromJson(json, model_, "plan.json"), plan);
  json["stages"][1]["devices"] = Json::parse("[[5, 5], [3, 3]]");
  EXPECT_EQ(RefusalOf(json),
            "plan.json: stages[1].devices: [[5,5],[3,3]]: ranges must ascend and have nothing in "
            "common");
  json["stages"][1]["devices"] = Json::parse("[[5, 5], 1]");
  EXPECT_EQ(RefusalOf(json),
            "plan.json: stages[1].devices: [[5,5],1]: expected ranges [first, last] within 0 to "
            "1048575");
}

TEST_F(PlanFile, OffloadReadsBack) {
  EXPECT_FALSE(json_.contains("offload"));
  plan_.offload = Offload::kOptimizer;
  Json json = ParseJson(ToJson(plan_, model_), "plan.json");
  EXPECT_EQ(json["offload"], "optimizer");
  EXPECT_EQ(FromJson(json, model_, "plan.json"), plan_);
  EXPECT_EQ(Refusal("/offload", "disk"),
            "plan.json: offload: \"disk\": choose one of none, optimizer, all");
}

TEST_F(PlanFile, SyncReadsBack) {
  EXPECT_FALSE(json_["stages"][0].contains("sync"));
  for (GradientSync sync : {GradientSync::kServer, GradientSync::kFactors}) {
    Plan plan = ExpertPlan(model_, LoadCluster("local:16"),
                           {.dp = 2, .tp = 2, .pp = 3, .microbatches = 2, .sync = sync});
    plan.model.source = "tiny-gpt2.onnx";
    ASSERT_FALSE(plan.stages[1].sync.empty());
    plan.stages[1].sync.erase(plan.stages[1].sync.begin());
    Json json = ParseJson(ToJson(plan, model_), "plan.json");
    EXPECT_EQ(json["stages"][1]["sync"].size(), 1u);
    EXPECT_EQ(json["stages"][1]["sync"][Name(sync)].size(), plan.stages[1].sync.size());
    EXPECT_EQ(FromJson(json, model_, "plan.json"), plan);
  }
  auto refusal = [&](const Json& sync) { return Refusal("/stages/0/sync", sync); };
  EXPECT_EQ(refusal({{"factor", Json::array()}}),
            "plan.json: stages[0].sync.factor: unknown key: did you mean 'factors'?");
  EXPECT_EQ(refusal({{"factors", "m.wpe"}}),
            "plan.json: stages[0].sync.factors: \"m.wpe\": expected a list [...]");
  EXPECT_EQ(refusal({{"factors", {"xyz"}}}),
            "plan.json: stages[0].sync.factors: \"xyz\": the model has no parameter of this name");
  EXPECT_EQ(refusal({{"factors", {"m.lm_head.weigth"}}}),
            "plan.json: stages[0].sync.factors: \"m.lm_head.weigth\": did you mean "
            "'m.lm_head.weight'?");
  EXPECT_EQ(
      refusal({{"factors", {"m.lm_head.weight"}}, {"server", {"m.lm_head.weight"}}}),
      "plan.json: stages[0].sync.factors: \"m.lm_head.weight\": this parameter is named twice");
  EXPECT_EQ(
      refusal({{"server", {"m.lm_head.weight"}}}),
      "plan.json: stage 0: 'm.lm_head.weight' cannot have sync server: stage 2 reads it, too");
}

TEST_F(PlanFile, HeaderNamesTheModel) {
  PlanHeader header = ReadPlanHeader(json_, "plan.json");
  EXPECT_EQ(header.model.source, "tiny-gpt2.onnx");
  EXPECT_EQ(header.model.hash, StableHash(model_.graph));
  EXPECT_EQ(header.batch, 4);
}

TEST_F(PlanFile, SaysWhatIsWrongWithTheWhole) {
  EXPECT_EQ(RefusalOf(Json::array()), "plan.json: the file: []: expected an object {...}");
  EXPECT_EQ(RefusalOf(Json::object()),
            "plan.json: not a plan: heddle_plan, its version, is missing");
  EXPECT_EQ(Refusal("/heddle_plan", 2),
            "plan.json: heddle_plan: 2: a newer heddle wrote this plan; this one reads version 1");
  EXPECT_EQ(Refusal("/micro_batches", 2),
            "plan.json: micro_batches: unknown key: did you mean 'microbatches'?");
  Json without = json_;
  without.erase("zero");
  EXPECT_EQ(RefusalOf(without), "plan.json: zero is missing");
  EXPECT_EQ(Refusal("/model/hash", "0123456789abcdef")
                .find("plan.json: model.hash: 0123456789abcdef: the plan is for another model: "
                      "'tiny-gpt2' has "),
            0u);
  EXPECT_EQ(Refusal("/model/hash", "12"),
            "plan.json: model.hash: \"12\": expected 16 hexadecimal digits");
  EXPECT_EQ(Refusal("/microbatches", "two"),
            "plan.json: microbatches: \"two\": expected a whole number");
  EXPECT_EQ(Refusal("/microbatches", 0), "plan.json: microbatches: 0: expected 1 to 1099511627776");
  EXPECT_EQ(Refusal("/bucket_bytes", uint64_t{1} << 63),
            "plan.json: bucket_bytes: 9223372036854775808: expected 1 to 9223372036854775807");
  EXPECT_EQ(Refusal("/microbatches", 3),
            "plan.json: a batch of 4 is not divisible into 3 micro-batches");
  EXPECT_EQ(Refusal("/batch_statistics", "locl"),
            "plan.json: batch_statistics: \"locl\": did you mean 'local'?");
  EXPECT_EQ(Refusal("/precision/compute", "f17"),
            "plan.json: precision.compute: \"f17\": did you mean 'f16'?");
  EXPECT_EQ(Refusal("/precision/master", "f16"),
            "plan.json: precision of master is f16, must be f32 or bf16");
  EXPECT_EQ(Refusal("/precision/products", "fp4"),
            "plan.json: precision.products: \"fp4\": did you mean 'fp8'?");
  EXPECT_EQ(Refusal("/zero/axes", Json::array({"xp"})),
            "plan.json: zero names axis 'xp', which no mesh has");
  EXPECT_EQ(Refusal("/schedule", ""), "plan.json: schedule: \"\": expected a text in quotes");
  EXPECT_EQ(Refusal("/cluster", 3), "plan.json: cluster: 3: expected a cluster written out");
  EXPECT_EQ(Refusal("/cluster/nodes", Json::array()).find("plan.json: cluster:1: nodes: "), 0u)
      << Refusal("/cluster/nodes", Json::array());
}

TEST_F(PlanFile, SaysWhatIsWrongWithAStage) {
  std::string s = "/stages/1/", at = "plan.json: stages[1].";
  EXPECT_EQ(Refusal("/stages", Json::array()),
            "plan.json: stages: []: expected at least one stage");
  EXPECT_EQ(
      Refusal(s + "blocks", Json::array({7, 8})),
      at + "blocks: [7,8]: must begin with block " + std::to_string(plan_.stages[1].first_block));
  EXPECT_EQ(Refusal(s + "blocks", Json::array({3, 99})),
            at + "blocks: [3,99]: expected [first, last] within 0 to 8");
  EXPECT_EQ(Refusal(s + "blocks", Json::array({3, 8}))
                .find("plan.json: stages[1].strategies: no strategy for "),
            0u)
      << Refusal(s + "blocks", Json::array({3, 8}));
  EXPECT_EQ(Refusal("/stages/2/blocks", Json::array({4, 7})),
            "plan.json: stages[2].blocks: [4,7]: the last stage must end with block 8");
  EXPECT_EQ(Refusal(s + "mesh/tp", 4),
            at + "mesh: {\"dp\":2,\"tp\":4}: has 8 devices, the stage 4");
  EXPECT_EQ(Refusal(s + "mesh/tp", 0), at + "mesh.tp: 0: expected 1 to 4");
  EXPECT_EQ(Refusal(s + "mesh", Json::parse("{\"a\":1,\"b\":1,\"c\":2,\"d\":2,\"e\":1,\"f\":1}")),
            at + "mesh: {\"a\":1,\"b\":1,\"c\":2,\"d\":2,\"e\":1,\"f\":1}: 6 axes, at most 5 are "
                 "possible");
  EXPECT_EQ(Refusal(s + "devices", Json::array({14, 17})),
            "plan.json: stage 1: 4 devices from device 14 on are not within the cluster's 16");
  EXPECT_EQ(Refusal(s + "recompute", "ful"), at + "recompute: \"ful\": did you mean 'full'?");
  EXPECT_EQ(Refusal(s + "recompute", Json::array()), at + "recompute: []: 0 choices for 1 blocks");
  EXPECT_EQ(Refusal(s + "times/weight", "x"), at + "times.weight: \"x\": expected a number");
  EXPECT_EQ(Refusal(s + "times/weight", -1),
            "plan.json: stage 1: the weight time is -1, must be positive and finite");
}

TEST_F(PlanFile, SaysWhatIsWrongWithStrategies) {
  std::string s = "/stages/0/strategies/", at = "plan.json: stages[0].strategies.";
  EXPECT_EQ(
      Refusal(s + "nodes/embedding", "Gather dp=i0 tp=w"),
      at + "nodes.embedding: \"Gather dp=i0 tp=w\": no factor 'w': choose one of v, z0, i0, i1");
  EXPECT_EQ(Refusal(s + "nodes/embedding", "Gather dp=i0 pt=v"),
            at + "nodes.embedding: \"Gather dp=i0 pt=v\": no axis 'pt': choose one of dp, tp");
  EXPECT_EQ(Refusal(s + "nodes/embedding", "Gather dp=i0 dp=v"),
            at + "nodes.embedding: \"Gather dp=i0 dp=v\": axis 'dp' is given twice");
  EXPECT_EQ(Refusal(s + "nodes/embedding", "Gather dp"),
            at + "nodes.embedding: \"Gather dp\": 'dp' is not AXIS=FACTOR");
  EXPECT_EQ(Refusal(s + "nodes/embedding", "Gather tp=partial7"),
            at + "nodes.embedding: \"Gather tp=partial7\": no linear set 'partial7': there are 1");
  EXPECT_EQ(Refusal(s + "nodes/embedding", "Linear dp=i0"),
            at + "nodes.embedding: \"Linear dp=i0\": the node here is Gather");
  EXPECT_EQ(Refusal(s + "nodes/embeding", "Gather dp=i0"),
            at + "nodes.embeding: no such node outside the chains of this stage: did you mean "
                 "'embedding'?");
  EXPECT_EQ(Refusal(s + "exceptions", Json::parse("{\"embedding\": \"Gather\"}")),
            at + "exceptions.embedding: no such node in the chains of this stage");
  EXPECT_EQ(Refusal(s + "chain 0/0", "LayerNorm tp=c0"),
            at + "chain 0[0]: \"LayerNorm tp=c0\": factor 'c0' is whole and cannot be split");
  EXPECT_EQ(Refusal(s + "chain 0", Json::array({"LayerNorm"}))
                .find(at + "chain 0: [\"LayerNorm\"]: 1 strategies for a block of "),
            0u);
  EXPECT_EQ(Refusal(s + "chain 7", Json::array()),
            at + "chain 7: no such chain in this stage: did you mean 'chain 0'?");
  EXPECT_EQ(Refusal("/stages/1/strategies/chain 0", "as stage 1"),
            "plan.json: stages[1].strategies.chain 0: \"as stage 1\": expected a stage that lists "
            "the strategies "
            "of this chain itself");
  EXPECT_EQ(Refusal("/stages/1/strategies/chain 0", 4),
            "plan.json: stages[1].strategies.chain 0: 4: expected a list of strategies, or \"as "
            "stage N\"");
  EXPECT_EQ(Refusal(s + "nodes", Json::object()),
            "plan.json: stages[0].strategies: no strategy for Gather 'embedding': add it to nodes");
}

}  // namespace
}  // namespace heddle
