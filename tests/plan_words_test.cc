// Plans in words: meshes by the names of their axes, splits of axes, and names of alternatives.
#include "report/plan_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "report/alternatives.h"
#include "run_binary.h"

namespace heddle {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kGptOfFour = "gpt2:layers=4,hidden=128,heads=4,seq=64,vocab=512,batch=16";

struct Described {
  Model model;
  Plan plan;
  StageSplits heaviest;
  Degrees degrees;
};

Described Describe(const std::string& source, const Degrees& degrees) {
  Described out;
  out.model = Analyse(LoadModel(source));
  out.plan = ExpertPlan(out.model, LoadCluster("dgx-h100:2"), degrees);
  PlanWords words(out.model);
  out.heaviest = words.Heaviest(out.plan);
  out.degrees = DegreesOf(out.plan, out.heaviest);
  return out;
}

TEST(PlanWords, MegatronsPlan) {
  Described at = Describe(kGptOfFour, {.dp = 2, .tp = 2, .pp = 2, .sp = true, .microbatches = 4});
  EXPECT_EQ(MeshInWords(at.plan, at.heaviest), "dp 2 x tp 2 x pp 2");
  ASSERT_EQ(at.heaviest.axes.size(), 2u);
  EXPECT_EQ(at.heaviest.axes[0].splits, "batch");
  EXPECT_EQ(at.heaviest.axes[1].splits,
            "attention by heads, linear layers by columns and rows, norms by sequence");
  EXPECT_TRUE(at.degrees.sp);
  EXPECT_EQ(RecomputationOfLayers(at.model, at.plan), RecomputePolicy::kNone);
}

TEST(PlanWords, WithoutSequenceParallelismNormsAreWhole) {
  Described at = Describe(kGptOfFour, {.tp = 4});
  EXPECT_EQ(MeshInWords(at.plan, at.heaviest), "dp 1 x tp 4 x pp 1");
  EXPECT_EQ(at.heaviest.axes[0].splits,
            "attention by heads, linear layers by columns and rows, norms whole");
  EXPECT_FALSE(at.degrees.sp);
}

TEST(PlanWords, DegreesAreThoseAskedFor) {
  const std::string moe = "moe:layers=2,hidden=64,heads=4,seq=32,vocab=128,experts=4,batch=16";
  struct Case {
    std::string model;
    Degrees asked;
  };
  for (const Case& at : {Case{kGptOfFour, {.dp = 4, .tp = 2, .pp = 2, .microbatches = 2}},
                         Case{kGptOfFour, {.dp = 2, .tp = 2, .cp = 2}},
                         Case{kGptOfFour, {.dp = 8, .zero = 1, .zero_ranks = 2}},
                         Case{moe, {.dp = 4, .ep = 4}}, Case{moe, {.dp = 4, .tp = 2, .ep = 4}}}) {
    Described said = Describe(at.model, at.asked);
    EXPECT_EQ(said.degrees.dp, at.asked.dp) << at.model;
    EXPECT_EQ(said.degrees.tp, at.asked.tp) << at.model;
    EXPECT_EQ(said.degrees.pp, at.asked.pp) << at.model;
    EXPECT_EQ(said.degrees.cp, at.asked.cp) << at.model;
    EXPECT_EQ(said.degrees.ep, at.asked.ep) << at.model;
  }
}

// An axis named tp may split the batch. It keeps its name, and the words name the split.
TEST(PlanWords, AnAxisMaySplitTheBatchWhateverItsName) {
  Described at = Describe(kGptOfFour, {.dp = 8});
  for (Stage& stage : at.plan.stages) {
    stage.mesh.axes = {{"dp", 4}, {"tp", 2}};
    for (Strategy& strategy : stage.strategies) {
      if (!strategy.empty()) strategy.push_back(strategy.front());
    }
  }
  PlanWords words(at.model);
  StageSplits heaviest = words.Heaviest(at.plan);
  Degrees degrees = DegreesOf(at.plan, heaviest);
  EXPECT_EQ(degrees.dp, 4);
  EXPECT_EQ(degrees.tp, 2);
  EXPECT_EQ(heaviest.axes[1].splits, "batch");
  Json meshes = MeshesJson(words, at.plan);
  ASSERT_EQ(meshes.size(), 1u);
  EXPECT_EQ(meshes[0]["first_device"], 0);
  EXPECT_EQ(meshes[0]["devices"], 8);
  EXPECT_EQ(meshes[0]["axes"][1],
            ParseJson(R"({"name": "tp", "size": 2, "splits": "batch"})", "expected"));
}

TEST(PlanWords, WhereMostIsOutsideOfLayersTheWordsAreOfThat) {
  Described at = Describe("vgg19:batch=16", {.dp = 8});
  EXPECT_EQ(at.heaviest.axes[0].splits, "batch");
}

JudgedPlan Judged(std::string from, double step, bool fits = true) {
  JudgedPlan judged;
  judged.plan.stages.resize(1);
  judged.from = std::move(from);
  judged.fits = fits;
  judged.result.step_seconds = step;
  return judged;
}

TEST(Alternatives, AreAtMostTenAndNoneTwice) {
  SearchResult result;
  result.judged = {Judged("dp 8 x pp 1", 1), Judged("dp 8 x pp 1", 1)};
  for (int i = 0; i < 9; ++i) {
    result.judged.push_back(Judged("expert", 2 + i));
    result.judged.push_back(Judged("expert", 2 + i));
    result.judged.push_back(Judged("spilled", 2 + i));
  }
  EXPECT_EQ(AlternativesOf(result).size(), 18u);
  std::string table = AlternativesTable(result);
  EXPECT_THAT(table, HasSubstr("\n  and 8 more (--json has all)\n"));
  EXPECT_THAT(table, Not(HasSubstr(" 0.0 % slower")));
  auto count = [&](const std::string& word) {
    size_t times = 0;
    for (size_t at = table.find(word); at != std::string::npos; at = table.find(word, at + 1))
      ++times;
    return times;
  };
  EXPECT_EQ(count("% slower"), 10u);
  EXPECT_EQ(count("\n    "), 2u) << table;  // the meanings of two words
  EXPECT_THAT(table, HasSubstr("\n    expert: Megatron's rules"));
  EXPECT_THAT(table, Not(HasSubstr("    data: ")));
  EXPECT_EQ(AlternativesTable({}), "");
}

TEST(Alternatives, OfPlansWithOtherBucketsTheBestIsEnough) {
  SearchResult result;
  result.judged = {Judged("dp 8, buckets of 128 MiB", 1),
                   Judged("dp 8", 2),
                   Judged("dp 4, buckets of 8 MiB, zb-h1", 3),
                   Judged("dp 4, zb-h1", 4),
                   Judged("dp 4, buckets of 2 MiB, zb-h1", 5),
                   Judged("dp 4", 6),
                   Judged("dp 4", 7)};
  std::vector<std::string> names;
  for (const Alternative& at : AlternativesOf(result)) names.push_back(at.plan->from);
  EXPECT_EQ(names, (std::vector<std::string>{"dp 4, buckets of 8 MiB, zb-h1", "dp 4", "dp 4"}));
}

TEST(Alternatives, WordsAreExplainedInTheDocumentationAndInTheHelp) {
  std::string page = Slurp(HEDDLE_TEST_DATA "/../../docs/planner.md");
  std::string help = RunHeddle("plan --help").out;
  for (const PlanTerm& term : PlanTerms()) {
    std::string word(term.word);
    EXPECT_NE(page.find("| " + word + " | "), std::string::npos) << word;
    EXPECT_NE(help.find("  " + word + ": "), std::string::npos) << word;
  }
}

}  // namespace
}  // namespace heddle
