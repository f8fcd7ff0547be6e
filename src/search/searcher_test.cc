// Search with proposals that are judged already, so that their results are known.
#include "search/searcher.h"

#include <gtest/gtest.h>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/testing.h"

namespace heddle {
namespace {

class SearcherTest : public testing::Test {
 protected:
  static const Model& model() {
    static const Model model = SmallModel(8);
    return model;
  }
  static const Cluster& cluster() {
    static const Cluster cluster = LoadCluster("dgx-a100:1");
    return cluster;
  }
  // Faster than any plan that is simulated.
  static JudgedPlan Judged(const std::string& from, int64_t microbatches, double seconds) {
    JudgedPlan out;
    out.plan =
        ExpertPlan(model(), cluster(),
                   {.dp = 2, .pp = 4, .microbatches = microbatches, .precision = DType::kBF16});
    out.from = from;
    out.fits = true;
    out.result.step_seconds = seconds;
    out.result.reserved_memory_bytes = 1;
    out.memory_limit = 1 << 30;
    out.simulated_microbatches = microbatches;
    return out;
  }
  static Proposal Known(JudgedPlan judged) {
    Proposal out{judged.plan, judged.from, judged.result.step_seconds};
    out.judged = std::make_shared<const JudgedPlan>(std::move(judged));
    return out;
  }

  SearchProblem problem_{.model = model(), .cluster = cluster()};
};

// The best plan was simulated with a few micro-batches, and the whole step does not fit.
TEST_F(SearcherTest, ABestPlanWhoseWholeStepDoesNotFitIsRefitted) {
  SearcherDef searcher{"test", "", [](const SearchTask&) {
                         JudgedPlan tight = Judged("tight", 4, 1e-9);
                         tight.simulated_microbatches = 2;
                         tight.memory_limit = 1;
                         tight.refit = [](const std::vector<double>& reserved) {
                           EXPECT_EQ(reserved.size(), 4u);
                           return Known(Judged("refitted", 2, 2e-9));
                         };
                         Proposals out;
                         out.plans.push_back(Known(std::move(tight)));
                         return out;
                       }};
  SearchResult found = Search(searcher, problem_);
  ASSERT_TRUE(found.feasible());
  EXPECT_EQ(found.judged.front().from, "refitted");
  for (const JudgedPlan& at : found.judged) EXPECT_EQ(at.fits, at.from != "tight");
}

// Improvements are repeated as long as the best plan becomes faster.
TEST_F(SearcherTest, WhatIsMadeBetterIsMadeBetterAgain) {
  SearcherDef searcher{"test", "", [](const SearchTask&) {
                         JudgedPlan first = Judged("first", 4, 3e-9);
                         first.improve = [] {
                           JudgedPlan second = Judged("second", 2, 2e-9);
                           second.improve = [] {
                             return std::vector<Proposal>{Known(Judged("third", 1, 1e-9))};
                           };
                           return std::vector<Proposal>{Known(std::move(second))};
                         };
                         Proposals out;
                         out.plans.push_back(Known(std::move(first)));
                         return out;
                       }};
  EXPECT_EQ(Search(searcher, problem_).judged.front().from, "third");
}

}  // namespace
}  // namespace heddle
