// Collectives under the expert's plans are those of Megatron. Per layer and direction, tensor parallelism alone has an
// all-reduce after attention and one after the MLP; with sequence parallelism there is an all-gather before and a
// reduce-scatter after each of them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/log.h"
#include "program/lower.h"
#include "program/verify.h"
#include "tiny_plan.h"

namespace heddle {
namespace {

// Counts of a block's collectives on values (forward) and gradients (backward), as in "forward all-reduce 2, backward
// all-reduce 2".
using Counts = std::map<std::pair<bool, StepKind>, int>;
std::string ToString(const Counts& counts) {
  std::vector<std::string> words;
  for (const auto& [what, count] : counts) {
    words.push_back(
        fmt::format("{} {} {}", what.first ? "backward" : "forward", Name(what.second), count));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

// Collectives by block; -1 for those outside of blocks.
std::map<int, Counts> CountSteps(const Program& program) {
  std::map<int, Counts> counts;
  for (const StageProgram& stage : program.stages) {
    for (const Local& local : stage.locals) {
      if (!local.Is<FromReshard>()) continue;
      StepKind kind = stage.steps[local.As<FromReshard>().step].kind;
      NodeId producer = program.model.graph.value(local.value).producer;
      int block = producer.valid() ? program.model.block_of[producer.index()] : -1;
      if (!IsLocal(kind)) ++counts[block][{local.gradient, kind}];
    }
  }
  return counts;
}

struct Case {
  std::string model;
  Degrees degrees;
  std::string layer;  // the collectives of every layer
};

Model LoadAny(const std::string& name) {
  return name.starts_with("tiny") ? LoadTiny(name) : Analyse(LoadModel(name));
}

class Communication : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kQuiet); }
  void TearDown() override { SetLogLevel(LogLevel::kInfo); }
};

TEST_P(Communication, IsMegatrons) {
  Model model = LoadAny(GetParam().model);
  Plan plan = ExpertPlan(model, LoadCluster("local:16"), GetParam().degrees);
  Program program = Lower(model, plan);
  EXPECT_EQ(Verify(program), std::vector<std::string>());
  std::map<int, Counts> counts = CountSteps(program);
  std::multiset<std::string> layers;
  for (size_t b = 0; b < program.model.blocks.size(); ++b) {
    const ModelBlock& block = program.model.blocks[b];
    if (block.chain >= 0) layers.insert(ToString(counts[static_cast<int>(b)]));
  }
  EXPECT_EQ(layers.count(GetParam().layer), layers.size())
      << fmt::format("{}", fmt::join(layers, "\n"));
  EXPECT_GE(layers.size(), 2u);
  for (const auto& [block, found] : counts) {
    for (const auto& [what, count] : found) {
      EXPECT_NE(what.second, StepKind::kAllToAll) << "block " << block;
    }
  }
}

const std::string kTensor = "forward all-reduce 2, backward all-reduce 2";
const std::string kSequence =
    "forward all-gather 2, forward reduce-scatter 2, backward all-gather 2, backward "
    "reduce-scatter 2";

INSTANTIATE_TEST_SUITE_P(
    Plans, Communication,
    testing::Values(
        Case{"tiny-gpt2", {.tp = 2}, kTensor}, Case{"tiny-gpt2", {.tp = 4}, kTensor},
        Case{"tiny-gpt2", {.tp = 2, .sp = true}, kSequence},
        Case{"tiny-gpt2", {.tp = 4, .sp = true}, kSequence},
        Case{"gpt3-175b:layers=4", {.tp = 8}, kTensor},
        Case{"gpt3-175b:layers=4", {.tp = 8, .sp = true}, kSequence},
        Case{"gpt:layers=4,hidden=256,heads=32,kv_heads=8", {.tp = 4}, kTensor},
        Case{"gpt:layers=4,hidden=256,heads=32,kv_heads=8", {.tp = 8, .sp = true}, kSequence}),
    [](const auto& info) { return "plan" + std::to_string(info.index); });

}  // namespace
}  // namespace heddle
