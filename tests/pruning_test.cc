// Effects of pruning on plans: state, traffic, and the use of the saved memory by the search.
#include <gtest/gtest.h>

#include <fstream>

#include "cluster/load.h"
#include "frontend/families/built_in.h"
#include "plan/expert.h"
#include "plan/plan_file.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "program/text.h"
#include "program/verify.h"
#include "run_binary.h"
#include "search/searcher.h"
#include "search/searchers.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

constexpr const char* kPrunedGpt = "gpt:layers=4,hidden=256,heads=4,seq=64,vocab=2000,batch=16";

Plan PrunedPlan(const Model& model, const Degrees& degrees, double sparsity) {
  Plan plan = ExpertPlan(model, LoadCluster("dgx-a100"), degrees);
  plan.pruning = PruneAll(model, sparsity);
  return plan;
}

// Bytes of weights, gradients, optimizer state and index of the first device.
double StateBytesOf(const Program& program) {
  double bytes = 0;
  const StageProgram& stage = program.stages.front();
  for (ParameterGroupId g : stage.groups.ids()) {
    for (BufferKind kind :
         {BufferKind::kWeights, BufferKind::kWeightGradients, BufferKind::kOptimizer}) {
      bytes += static_cast<double>(BufferBytes(program, {kind, StageId{0}, g, -1, 0}, 0));
    }
  }
  return bytes;
}

TEST(Pruning, StateIsOfWhatIsKept) {
  Model model = Analyse(BuildModel(kPrunedGpt));
  double parameters = 0;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    double elements = 1;
    for (int64_t n : model.graph.value(id).type.shape) elements *= static_cast<double>(n);
    parameters += elements;
  }
  Degrees degrees;
  degrees.precision = DType::kBF16;
  double dense = StateBytesOf(Lower(model, PrunedPlan(model, degrees, 0))) / parameters;
  EXPECT_NEAR(dense, 2 + 4 + 4 + 8, 1e-9);
  for (double p : {0.5, 0.8, 0.9}) {
    double sparse = StateBytesOf(Lower(model, PrunedPlan(model, degrees, p))) / parameters;
    EXPECT_LE(sparse, 2 + 24 * (1 - p));        // the upper bound of the paper
    EXPECT_GE(sparse, 2 + (4 + 16) * (1 - p));  // the bytes that are necessary
    EXPECT_NEAR(sparse, 2 + 20 * (1 - p), 0.1);
    // In fp32, the updated weights are separate from those used in compute.
    double wide = StateBytesOf(Lower(model, PrunedPlan(model, {}, p))) / parameters;
    EXPECT_NEAR(wide, 4 + 20 * (1 - p), 0.1);
  }
}

TEST(Pruning, BoundsGoByTheLeastThatIsKept) {
  Model model = Analyse(BuildModel(kPrunedGpt));
  EXPECT_EQ(LeastKept({}, model.graph), 1);
  Pruning pruning = PruneAll(model, 0.5);
  EXPECT_NEAR(LeastKept(pruning, model.graph), 0.5, 1e-3);
  pruning.kept.begin()->second = 1;
  EXPECT_LT(LeastKept(pruning, model.graph), 1e-3);
}

TEST(Pruning, GradientsAreSentCompressed) {
  Model model = Analyse(BuildModel(kPrunedGpt));
  auto sent = [&](double sparsity, int zero) {
    Program program = Lower(model, PrunedPlan(model, {.dp = 8, .zero = zero}, sparsity));
    EXPECT_EQ(Verify(program), std::vector<std::string>());
    double bytes = 0;
    for (const Instruction& i : program.runs[0].instructions) {
      bool moved = i.op == Opcode::kReduceGradients || i.op == Opcode::kGatherWeights;
      if (moved) bytes += static_cast<double>(CollectiveOf(program, i, 0).bytes);
    }
    return bytes;
  };
  for (int zero : {0, 1, 2, 3}) EXPECT_NEAR(sent(0.9, zero) / sent(0, zero), 0.1, 0.01) << zero;
}

TEST(Pruning, ShardsOfTensorParallelismKeepTheirPart) {
  Model model = Analyse(BuildModel(kPrunedGpt));
  Program program = Lower(model, PrunedPlan(model, {.dp = 2, .tp = 4}, 0.75));
  const StageProgram& stage = program.stages.front();
  size_t split = 0;
  for (const ParameterGroup& group : stage.groups) {
    for (const ParameterSlot& slot : group.slots) {
      if (slot.kept.empty()) continue;
      Position position(stage.mesh.axes.size(), 0);
      EXPECT_NEAR(static_cast<double>(KeptElements(stage, slot, position)),
                  0.25 * static_cast<double>(SlotElements(stage, slot, position)), 1);
      split += slot.kept.size() == 4 ? 1 : 0;
    }
  }
  EXPECT_GT(split, 10u);
}

TEST(Pruning, PlanFilesReadBack) {
  Model model = Analyse(BuildModel(kPrunedGpt));
  Plan plan = PrunedPlan(model, {.dp = 8}, 0.9);
  plan.model.hash = StableHash(model.graph);
  auto again = [&] { return FromJson(ParseJson(ToJson(plan, model), "plan"), model, "plan"); };
  EXPECT_EQ(again().pruning, plan.pruning);
  plan.pruning.kept.begin()->second -= 1;  // the sparsity is no longer equal for all
  EXPECT_EQ(again().pruning, plan.pruning);
  plan.pruning.kept["nothing"] = 1;
  EXPECT_EQ(Verify(plan, model),
            std::vector<std::string>{"pruning names 'nothing', which is not a parameter"});
}

// The search uses the saved memory: a model that needs stages or does not fit when dense is faster when pruned.
TEST(Pruning, TheSearchSpendsTheRoom) {
  Model model = Analyse(BuildModel("gpt3-2.7b:batch=64"));
  Cluster cluster = LoadCluster("dgx-a100-40gb");
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.precision = DType::kBF16;
  problem.memory_limit = int64_t{16} << 30;
  problem.fixed.zero = 0;
  problem.fixed.offload = Offload::kNone;
  SearchResult dense = Search(AutoSearcher(), problem);
  problem.pruning = PruneAll(model, 0.9);
  SearchResult sparse = Search(AutoSearcher(), problem);
  ASSERT_TRUE(dense.feasible() && sparse.feasible());
  const JudgedPlan &before = dense.judged.front(), &after = sparse.judged.front();
  EXPECT_LT(after.result.step_seconds, 0.97 * before.result.step_seconds);
  EXPECT_TRUE(after.plan.pruning.any());
  // The bound is not above the step of the best plan.
  EXPECT_LE(sparse.proposals.lower_bound, after.result.step_seconds * (1 + 1e-9));
}

TEST(Pruning, MistakesAreOneLine) {
  ExpectRefused("plan gpt2 --cluster dgx-a100 --sparsity 1", {"--sparsity: 1:", "below 1"});
  ExpectRefused("plan gpt2 --cluster dgx-a100 --sparsity -0.1", {"--sparsity: -0.1:"});
  ExpectRefused("plan gpt2 --cluster dgx-a100 --mask nowhere.safetensors", {"nowhere.safetensors"});
  TempFolder folder;
  HostTensor ones(DType::kBool, {4, 4}), none(DType::kBool, {50257, 768}), wrong(DType::kF32, {4});
  std::fill(ones.data.begin(), ones.data.end(), std::byte{1});
  auto refused = [&](const std::string& name, const HostTensor& mask,
                     const std::vector<std::string>& parts) {
    std::vector<NamedTensor> named = {{name, &mask}};
    WriteSafetensors(folder / "m.safetensors", named);
    ExpectRefused("plan gpt2 --cluster dgx-a100 --mask " + folder / "m.safetensors", parts);
  };
  Model model = Analyse(BuildModel("gpt2"));
  std::string embedding;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    if (model.graph.value(id).type.shape == Shape{50257, 768})
      embedding = model.graph.value(id).name;
  }
  ASSERT_FALSE(embedding.empty());
  refused("other", ones, {"'other'", "no such parameter"});
  refused(embedding, ones, {embedding, "shape"});
  refused(embedding, none, {embedding, "nothing of it is kept"});
  refused(embedding, wrong, {embedding, "BOOL"});
}

}  // namespace
}  // namespace heddle
