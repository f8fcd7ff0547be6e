// Floors of configurations against the simulator: at the plan that the search makes of each, and at the expert's of the
// same degrees.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "plan/precision.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "search/assemble.h"
#include "search/estimate.h"
#include "sim/simulate.h"

namespace heddle {

struct CheckedFloors {
  int plans = 0;       // that fit
  double closest = 0;  // of a floor, as a share of the step

  // All that Enumerate gives, of one axis inside a node.
  void Add(const SearchProblem& problem) {
    Model model = WithComputeType(problem.model, problem.precision);
    Precision precision;
    precision.compute = problem.precision;
    Prices prices(model, problem.cluster, {precision, problem.sim, problem.whole, nullptr});
    Estimator estimator(problem, prices);
    uint64_t hash = StableHash(problem.model.graph);
    std::vector<Configuration> all = Enumerate(problem, false);
    for (size_t i = 0, count = all.size(); i < count; ++i) {
      if (auto offloaded = Offloaded(problem, all[i])) all.push_back(*offloaded);
    }
    for (const Configuration& at : all) {
      SCOPED_TRACE(ToString(at));
      time_ = estimator.TimeFloor(at);
      floor_ = estimator.Floor(at).floor;
      close_ = estimator.CloseFloor(at);
      Estimate estimate = estimator.Of(at);
      if (!estimate.stages.empty()) {
        Check(problem, Assemble(problem, hash, prices, estimator, at, estimate), "the search");
      }
      for (bool sp : {false, true}) {
        std::optional<Plan> expert = ExpertOf(problem, at, sp);
        if (expert) Check(problem, *expert, sp ? "expert sp" : "expert");
      }
    }
  }

 private:
  static std::optional<Plan> ExpertOf(const SearchProblem& problem, const Configuration& at,
                                      bool sp) {
    Degrees degrees;
    degrees.dp = at.dp;
    degrees.tp = at.inner();
    degrees.pp = at.pp;
    degrees.sp = sp;
    degrees.microbatches = at.microbatches;
    degrees.schedule = at.schedule;
    degrees.chunks = at.chunks;
    degrees.zero = at.zero;
    degrees.offload = at.offload;
    degrees.precision = problem.precision;
    degrees.gradients = problem.gradients;
    degrees.recompute = problem.fixed.recompute.value_or(RecomputePolicy::kNone);
    if (sp && degrees.tp == 1) return std::nullopt;
    try {
      return ExpertPlan(problem.model, problem.cluster, degrees);
    } catch (const InputError&) {
      return std::nullopt;  // not for this model
    }
  }

  void Check(const SearchProblem& problem, const Plan& plan, std::string_view whose) {
    ASSERT_THAT(Verify(plan, problem.model), testing::IsEmpty());
    SimResult result = Simulate(Lower(problem.model, plan), problem.cluster, problem.sim);
    double step = result.step_seconds * (1 + 1e-9);
    EXPECT_LE(time_, step) << whose;
    // What does not fit need not keep to what memory makes of it.
    if (result.reserved_memory_bytes > MemoryLimit(problem)) return;
    EXPECT_LE(floor_, step) << whose;
    EXPECT_LE(close_, step) << whose;
    closest = std::max({closest, floor_ / step, close_ / step});
    ++plans;
  }

  double time_ = 0, floor_ = 0, close_ = 0;
};

}  // namespace heddle
