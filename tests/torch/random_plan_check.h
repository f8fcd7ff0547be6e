// Random plans (random_plan.h) have random strategies for every node on random meshes, random stages and any schedule.
// They, too, give the results of one device.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "../known_models.h"
#include "../random_plan.h"
#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/verify.h"
#include "plan_harness.h"
#include "runtime/data/batch.h"

namespace heddle {

struct RandomPlanSubject {
  std::string name;
  Model model;
  Batch batch;
  Curve expected;
};

inline std::vector<RandomPlanSubject> RandomPlanSubjects(const CurveOptions& options) {
  std::vector<RandomPlanSubject> subjects;
  for (const KnownModel& known : KnownModels()) {
    if (known.reference.empty()) continue;
    Model model = Analyse(LoadModel(known.path, {}));
    Batch batch = ReadBatch(model.graph, known.reference);
    Curve expected = OneDevice(model.graph, batch, options);
    subjects.push_back({known.name, std::move(model), std::move(batch), std::move(expected)});
  }
  return subjects;
}

// Checks `plans` plans with this seed and the following ones. HEDDLE_RANDOM_PLAN=17 runs only the plan of seed 17.
inline void ExpectRandomPlansMatchOneDevice(uint64_t seed, int plans) {
  constexpr int64_t kMaxDevices = 8;
  CurveOptions options;
  options.steps = 3;
  options.clip_norm = 1;
  std::vector<RandomPlanSubject> subjects = RandomPlanSubjects(options);
  ASSERT_EQ(subjects.size(), 6u);
  const char* only = std::getenv("HEDDLE_RANDOM_PLAN");
  int done = 0, refused = 0;
  if (only != nullptr) seed = std::strtoull(only, nullptr, 10);
  for (; done < plans; ++seed) {
    Random rng(seed);
    const RandomPlanSubject& subject = subjects[seed % subjects.size()];
    Plan plan = RandomPlan(subject.model, rng);
    AddRandomSync(subject.model, rng, plan);
    plan.precision = {};
    plan.local_batch_statistics = false;
    plan.cluster = LoadCluster(seed % 2 == 0 ? "local:32" : "dgx-a100:4");
    if (DeviceCount(plan) > kMaxDevices) continue;
    std::vector<std::string> wrong = Verify(plan, subject.model);
    if (!wrong.empty()) {  // such as batch statistics with micro-batches
      ASSERT_LT(++refused, plans) << wrong[0];
      continue;
    }
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + subject.name);
    ExpectSame(OnThreads(subject.model, plan, subject.batch, options), subject.expected);
    ++done;
    if (testing::Test::HasFailure() || only != nullptr) break;
  }
}

}  // namespace heddle
