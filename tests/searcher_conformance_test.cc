// The requirements for all searchers (search/searcher.h): valid plans, never slower than data parallelism, the same
// plan each time, fixed options respected, and a plan even without any time.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "base/testing.h"
#include "frontend/families/built_in.h"
#include "plan/plan_file.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "program/verify.h"
#include "search/explore/configuration.h"
#include "search/searcher.h"
#include "search/solver/ilp.h"
#include "tiny_plan.h"

namespace heddle {

// Prints a searcher in messages of gtest.
inline void PrintTo(const SearcherDef& def, std::ostream* out) { *out << def.name; }

namespace {

using Clock = std::chrono::steady_clock;

const Model& Mlp() {
  static const Model model = LoadTiny("tiny-mlp");
  return model;
}
const Model& Cnn() {
  static const Model model = LoadTiny("tiny-cnn");
  return model;
}
const Model& Gpt() {
  static const Model model =
      Analyse(BuildModel("gpt:layers=2,hidden=32,heads=2,seq=8,vocab=64,batch=8"));
  return model;
}

// The number of devices along the axes of these names.
int64_t Along(const Plan& plan, std::initializer_list<std::string_view> names) {
  int64_t devices = 1;
  for (const MeshAxis& axis : plan.stages[0].mesh.axes) {
    if (std::find(names.begin(), names.end(), axis.name) != names.end()) devices *= axis.size;
  }
  return devices;
}

// The fixed options that the plan violates, in words.
std::vector<std::string> Strays(const SearchProblem& problem, const Plan& plan) {
  std::vector<std::string> strays;
  const FixedDegrees& fixed = problem.fixed;
  auto want = [&](std::string_view name, auto fixed_to, auto is) {
    if (fixed_to && *fixed_to != is) {
      strays.push_back(fmt::format("{} is {}, fixed to {}", name, is, *fixed_to));
    }
  };
  int64_t dp = Along(plan, {"dp", "ep"}),
          pp = static_cast<int64_t>(plan.stages.size()) / plan.chunks;
  want("dp", fixed.dp, dp);
  want("tp", fixed.tp, Along(plan, {"tp", "xp"}));
  want("pp", fixed.pp, pp);
  want("microbatches", fixed.microbatches, plan.microbatches);
  want("chunks", fixed.chunks, plan.chunks);
  want("schedule", fixed.schedule, plan.schedule);
  if (dp > 1) want("zero", fixed.zero, plan.zero.level);
  for (const Stage& stage : plan.stages) {
    for (RecomputePolicy policy : stage.recompute) {
      if (fixed.recompute && policy != *fixed.recompute) strays.push_back("recompute");
    }
    const Model& model = problem.model;
    for (size_t n = 0; n < stage.strategies.size(); ++n) {
      const Node& node = model.graph.nodes[n];
      if (stage.strategies[n].empty()) continue;
      for (size_t o = 0; o < node.operands.size(); ++o) {
        const std::string& name = model.graph.value(node.operands[o]).name;
        if (std::find(problem.whole.begin(), problem.whole.end(), name) == problem.whole.end()) {
          continue;
        }
        Sharding stored = OperandSharding(stage.mesh, model.rules[n], stage.strategies[n], o);
        if (stored.split_axes() != 0) strays.push_back(name + " is split");
      }
    }
  }
  if (!fixed.layers_per_stage.empty()) {
    std::vector<int64_t> layers;
    for (const Stage& stage : plan.stages) {
      layers.push_back(0);
      for (int b = stage.first_block; b < stage.last_block; ++b) {
        layers.back() += problem.model.blocks[static_cast<size_t>(b)].chain >= 0 ? 1 : 0;
      }
    }
    if (layers != fixed.layers_per_stage) {
      strays.push_back(fmt::format("layers are {}", fmt::join(layers, ",")));
    }
  }
  return strays;
}

class Conformance : public testing::TestWithParam<SearcherDef> {
 protected:
  void SetUp() override {
    if (GetParam().name == "ilp" && !HasIlp()) GTEST_SKIP() << "built without CBC";
  }

  bool IsExact() const { return GetParam().name != "data" && GetParam().name != "expert"; }
  bool IsSlow() const { return GetParam().name == "ilp" || GetParam().name == "brute"; }

  // nullopt if the searcher reports that the problem is too large for it.
  std::optional<SearchResult> Found(const SearchTask& problem) {
    SearchResult result;
    try {
      result = Search(GetParam(), problem);
    } catch (const InputError& error) {
      EXPECT_EQ(GetParam().name, "brute") << error.what();
      EXPECT_THAT(error.what(), testing::HasSubstr("too many to try"));
      return std::nullopt;
    }
    ++searched_;
    // If a parameter must stay whole, the rules of the expert may give no plan.
    EXPECT_TRUE(!result.judged.empty() || (!problem.whole.empty() && !IsExact()));
    for (const JudgedPlan& judged : result.judged) {
      SCOPED_TRACE(judged.from);
      EXPECT_THAT(Verify(judged.plan, problem.model), testing::IsEmpty());
      EXPECT_THAT(Verify(Lower(problem.model, judged.plan)), testing::IsEmpty());
      EXPECT_THAT(Strays(problem, judged.plan), testing::IsEmpty());
    }
    return result;
  }

  static std::vector<std::string> Plans(const Model& model, const SearchResult& result) {
    std::vector<std::string> plans;
    for (const JudgedPlan& judged : result.judged) {
      plans.push_back(judged.from + "\n" + ToJson(judged.plan, model));
    }
    return plans;
  }

  int searched_ = 0;
};

TEST_P(Conformance, SoundNeverSlowerThanDataAndTheSameEachTime) {
  std::vector<std::pair<const Model*, std::string>> cases = {
      {&Mlp(), "local:2"}, {&Mlp(), "local:4"}, {&Gpt(), "local:2"}};
  if (!IsSlow()) {
    cases.insert(cases.end(), {{&Mlp(), "dgx-h100:1"},
                               {&Cnn(), "local:2"},
                               {&Cnn(), "local:4"},
                               {&Cnn(), "dgx-h100:1"},
                               {&Gpt(), "local:4"},
                               {&Gpt(), "dgx-h100:1"}});
  }
  for (const auto& [model, name] : cases) {
    SCOPED_TRACE(fmt::format("{} on {}", model->graph.name, name));
    Cluster cluster = LoadCluster(name);
    SearchProblem problem{.model = *model, .cluster = cluster};
    std::optional<SearchResult> result = Found(problem);
    if (!result) continue;
    EXPECT_TRUE(result->feasible());
    EXPECT_FALSE(result->stopped);
    SearchResult data = Search(*FindSearcher("data"), problem);
    for (const JudgedPlan& judged : data.judged) {
      if (judged.from != "data" || !judged.fits) continue;
      EXPECT_LE(result->judged[0].result.step_seconds, judged.result.step_seconds);
    }
    // No judged plan is faster than the bound. The bound is for plans that reduce all gradients.
    for (const JudgedPlan& judged : result->judged) {
      if (judged.factors) continue;
      EXPECT_LE(result->proposals.lower_bound, judged.result.step_seconds * (1 + 1e-9));
    }
    if (IsSlow() && model != &Mlp()) continue;
    EXPECT_EQ(Plans(*model, *Found(problem)), Plans(*model, *result));
  }
  EXPECT_GE(searched_, 2);
}

TEST_P(Conformance, KeepsToWhatIsFixed) {
  Cluster cluster = LoadCluster("local:4");
  std::vector<FixedDegrees> all(10);
  all[0].dp = 2;
  all[1].tp = 2;
  all[2].pp = 2;
  all[3].microbatches = 2;
  all[4].zero = 1;
  all[5].recompute = RecomputePolicy::kFull;
  all[6].tp = 2, all[6].pp = 2, all[6].microbatches = 4, all[6].schedule = "gpipe";
  all[7].dp = 2, all[7].zero = 3, all[7].microbatches = 1;
  all[8].dp = 2, all[8].tp = 1, all[8].pp = 1, all[8].recompute = RecomputePolicy::kSelective;
  all[9].pp = 2, all[9].tp = 2, all[9].zero = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    SearchProblem problem{.model = IsSlow() ? Mlp() : Gpt(), .cluster = cluster, .fixed = all[i]};
    Found(problem);
  }
  EXPECT_GE(searched_, 5);
}

// Fixed options also hold in the wide space, with two axes and axes across machines.
TEST_P(Conformance, KeepsToWhatIsFixedInTheWideSpace) {
  Cluster cluster = LoadCluster("local:4");
  SearchProblem problem{.model = Mlp(), .cluster = cluster};
  problem.fixed.tp = 2;
  problem.memory_limit = 1000;
  Found(problem);
}

TEST_P(Conformance, KeepsParametersWhole) {
  Cluster cluster = LoadCluster("local:2");
  for (const Model* model : {&Mlp(), &Gpt()}) {
    for (bool all : {false, true}) {
      SearchProblem problem{.model = *model, .cluster = cluster};
      problem.fixed.tp = 2;
      for (ValueId id : model->graph.ValuesOf(ValueKind::kParameter)) {
        if (all || problem.whole.empty()) problem.whole.push_back(model->graph.value(id).name);
      }
      Found(problem);
    }
  }
}

TEST_P(Conformance, KeepsToLayersPerStage) {
  Cluster cluster = LoadCluster("local:2");
  Model model = Analyse(BuildModel("gpt:layers=3,hidden=16,heads=2,seq=4,vocab=16,batch=4"));
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.fixed.pp = 2;
  problem.fixed.tp = 1;
  for (std::vector<int64_t> layers : {std::vector<int64_t>{2, 1}, {1, 2}}) {
    problem.fixed.layers_per_stage = layers;
    Found(problem);
  }
}

TEST_P(Conformance, WithoutTimeThereIsAPlanSoon) {
  Cluster cluster = LoadCluster("dgx-h100:1");
  Model deep = Analyse(BuildModel("gpt:layers=24,hidden=128,heads=8,seq=64,vocab=256,batch=16"));
  for (const Model* model : {&Mlp(), &Gpt(), static_cast<const Model*>(&deep)}) {
    SearchProblem problem{.model = *model, .cluster = cluster};
    SearchTask task(problem);
    task.effort.deadline = Clock::now();
    Clock::time_point begin = Clock::now();
    std::optional<SearchResult> result = Found(task);
    ASSERT_TRUE(result.has_value());
    EXPECT_TRUE(result->feasible());
    double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    EXPECT_LT(seconds, 10 * kSlowdown) << model->graph.name;
  }
}

TEST_P(Conformance, WhatDoesNotFitIsSaid) {
  Cluster cluster = LoadCluster("local:2");
  SearchProblem problem{.model = Mlp(), .cluster = cluster, .memory_limit = 1000};
  for (bool simulate : {false, true}) {
    SearchTask task(problem);
    task.effort.simulate_all = simulate;
    std::optional<SearchResult> result = Found(task);
    if (!result) continue;
    EXPECT_FALSE(result->feasible());
    EXPECT_GT(result->judged[0].reserved(), result->memory_limit);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Conformance, testing::ValuesIn(AllSearchers()),
                         [](const auto& info) { return std::string(info.param.name); });

// The plans that were judged before the deadline are returned.
TEST(Stopped, IsSaidOfASearcherThatTheDeadlineCameUpon) {
  static std::atomic<bool> stop;
  SearcherDef def{"interrupted", "", [](const SearchTask& task) {
                    stop = task.effort.stop != nullptr;
                    Proposals out = FindSearcher("data")->propose(task);
                    for (Proposal& plan : FindSearcher("expert")->propose(task).plans) {
                      out.plans.push_back(std::move(plan));
                    }
                    return out;
                  }};
  Cluster cluster = LoadCluster("local:1");
  SearchTask task(SearchProblem{.model = Mlp(), .cluster = cluster});
  task.effort.judged = 2;
  SearchResult whole = Search(def, task);
  EXPECT_FALSE(whole.stopped);
  task.effort.stop = &stop;
  SearchResult cut = Search(def, task);
  EXPECT_TRUE(cut.stopped);
  EXPECT_FALSE(cut.judged.empty());
  EXPECT_LE(cut.judged.size(), whole.judged.size());
}

// Enumerated configurations already respect fixed options.
TEST(Configurations, KeepToWhatIsFixed) {
  Cluster cluster = LoadCluster("dgx-h100:2");
  SearchProblem problem{.model = Gpt(), .cluster = cluster};
  problem.fixed.tp = 2;
  for (bool wide : {false, true}) {
    std::vector<Configuration> all = Enumerate(problem, wide);
    EXPECT_FALSE(all.empty());
    for (const Configuration& at : all) EXPECT_EQ(at.inner(), 2) << ToString(at);
  }
}

// The three solvers find the same minimum of a stage's problem.
TEST(ExactSearchers, Agree) {
  struct Case {
    const Model* model;
    std::string cluster;
    std::optional<int64_t> dp;
    bool brute;
  };
  for (const Case& at : {Case{&Mlp(), "local:2", {}, true}, Case{&Mlp(), "local:4", {}, true},
                         Case{&Mlp(), "dgx-h100:1", 2, true}, Case{&Gpt(), "local:2", {}, false},
                         Case{&Gpt(), "dgx-h100:1", 4, false}}) {
    SCOPED_TRACE(at.model->graph.name + " on " + at.cluster);
    Cluster cluster = LoadCluster(at.cluster);
    SearchProblem problem{.model = *at.model, .cluster = cluster};
    problem.fixed.dp = at.dp;
    Proposals best = FindSearcher("auto")->propose(problem);
    if (best.close_bound) best.close_bound(best);
    EXPECT_GT(best.additive, 0);
    for (const char* name : {"ilp", "brute"}) {
      if (name == std::string("ilp") ? !HasIlp() : !at.brute) continue;
      Clock::time_point begin = Clock::now();
      Proposals other = FindSearcher(name)->propose(problem);
      fmt::print("{} {} on {}: {:.2f} s\n", name, at.model->graph.name, at.cluster,
                 std::chrono::duration<double>(Clock::now() - begin).count());
      EXPECT_EQ(other.considered, best.considered);
      EXPECT_NEAR(other.additive, best.additive, 1e-9 * best.additive) << name;
      EXPECT_NEAR(other.lower_bound, best.lower_bound, 1e-6 * best.lower_bound) << name;
    }
  }
}

}  // namespace
}  // namespace heddle
