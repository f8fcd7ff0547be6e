// Equal devices are simulated once. The result is bitwise equal to that of simulating every device.
#include <gtest/gtest.h>

#include "cluster/load.h"
#include "cluster/topology.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "random_plan.h"
#include "sim/sim_test_models.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

// Checks that the times of every device are those of its class.
void ExpectSame(const Program& program, const Cluster& cluster, SimOptions options,
                const std::string& what) {
  Prepared folded = Prepare(program, cluster, options);
  options.fold = false;
  Prepared whole = Prepare(program, cluster, options);
  Timeline one = Execute(folded), all = Execute(whole);
  ASSERT_EQ(one.seconds, all.seconds) << what;
  ASSERT_EQ(static_cast<int64_t>(all.times.size()), program.device_count()) << what;
  for (size_t d = 0; d < all.times.size(); ++d) {
    const std::vector<TaskTimes>& of_class =
        one.times[static_cast<size_t>(folded.classes.class_of[d])];
    ASSERT_EQ(of_class.size(), all.times[d].size()) << what;
    for (size_t t = 0; t < of_class.size(); ++t) {
      ASSERT_EQ(of_class[t].start, all.times[d][t].start)
          << what << " device " << d << " task " << t;
      ASSERT_EQ(of_class[t].end, all.times[d][t].end) << what << " device " << d << " task " << t;
    }
  }
}

Cluster ClusterFor(int64_t devices, Random& rng) {
  static const std::vector<std::string> kPresets = {"dgx-a100", "dgx-h100", "dgx-v100"};
  const std::string& preset = kPresets[static_cast<size_t>(Below(rng, kPresets.size()))];
  return LoadCluster(preset + ":" + std::to_string((devices + 7) / 8));
}

TEST(SimFold, RandomPlansAreTheSameFoldedAndWhole) {
  Model model = Analyse(Layers(6, 8, 24));
  int run = 0;
  int64_t most = 0;
  for (uint64_t seed = 0; run < 150; ++seed) {
    Random rng(seed);
    Plan plan = RandomPlan(model, rng, seed % 3 == 0);
    AddRandomSync(model, rng, plan);
    plan.cluster = ClusterFor(DeviceCount(plan), rng);
    if (plan.precision.compute == DType::kBF16 && plan.cluster.name.find("v100") == 4) continue;
    if (!Verify(plan, model).empty()) continue;
    SimOptions options;
    if (Below(rng, 3) == 0) {
      options.slow = {
          {Below(rng, static_cast<size_t>(DeviceCount(plan))), 1.5, Below(rng, 2) == 0}};
    }
    if (Below(rng, 2) == 0)
      options.stack.overlap_gradients = options.stack.overlap_transfers = false;
    ExpectSame(Lower(model, plan), plan.cluster, options, "seed " + std::to_string(seed));
    most = std::max(most, DeviceCount(plan));
    ++run;
  }
  EXPECT_EQ(most, 64);
}

// Common plans on up to 64 devices, some with widths that the devices do not divide.
TEST(SimFold, ExpertPlansOf64DevicesAreTheSameFoldedAndWhole) {
  Model model = Analyse(Layers(8, 64, 36));
  struct Case {
    int64_t dp, tp, pp, microbatches;
    int zero;
    std::string schedule;
    int chunks = 1;
  };
  for (const Case& at : {Case{64, 1, 1, 1, 3, "1f1b"}, Case{8, 8, 1, 4, 1, "1f1b"},
                         Case{4, 4, 4, 8, 0, "1f1b"}, Case{16, 1, 4, 4, 2, "zb-h1"},
                         Case{2, 8, 4, 8, 1, "interleaved", 2}, Case{8, 2, 4, 8, 0, "gpipe"}}) {
    Cluster cluster = LoadCluster("dgx-a100:8");
    Degrees degrees;
    degrees.dp = at.dp;
    degrees.tp = at.tp;
    degrees.pp = at.pp;
    degrees.microbatches = at.microbatches;
    degrees.zero = at.zero;
    degrees.schedule = at.schedule;
    degrees.chunks = at.chunks;
    Program program = Lower(model, ExpertPlan(model, cluster, degrees));
    ExpectSame(program, cluster, {}, at.schedule);
    Prepared folded = Prepare(program, cluster, {});
    EXPECT_LT(folded.classes.devices.size(), 64u) << "nothing was folded";
  }
}

}  // namespace
}  // namespace heddle
