#include "report/break_even.h"

#include <gtest/gtest.h>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "sim/sim_test_models.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

TEST(BreakEven, KnobsScaleWhatTheyName) {
  Cluster cluster = LoadCluster("dgx-h100:2");
  Cluster inner = Scaled(cluster, Knob::kInnerLinks, 2);
  Cluster outer = Scaled(cluster, Knob::kOuterLinks, 2);
  const Group &node = cluster.groups.front(), &whole = cluster.groups.back();
  EXPECT_EQ(inner.groups.front().link.bandwidth, 2 * node.link.bandwidth);
  EXPECT_EQ(inner.groups.front().uplink, node.uplink);
  EXPECT_EQ(inner.groups.back(), whole);
  EXPECT_EQ(outer.groups.front().link, node.link);
  EXPECT_EQ(outer.groups.front().uplink.per_device, 2 * node.uplink.per_device);
  EXPECT_EQ(outer.groups.back().link.bandwidth, 2 * whole.link.bandwidth);
  EXPECT_EQ(Scaled(cluster, Knob::kProducts, 0.5).device_types[0].peak.bf16,
            0.5 * cluster.device_types[0].peak.bf16);
  EXPECT_EQ(Scaled(cluster, Knob::kMemory, 3).device_types[0].memory_bandwidth,
            3 * cluster.device_types[0].memory_bandwidth);
  for (Knob knob : kKnobs) EXPECT_EQ(Scaled(cluster, knob, 1), cluster);
}

TEST(BreakEven, TheOrderTurnsAtTheFactorFound) {
  Cluster cluster = LoadCluster("dgx-h100:1");
  Model model = Analyse(Layers(8, 4096, 2048));
  Program data = Lower(model, ExpertPlan(model, cluster, {.dp = 8, .precision = DType::kBF16}));
  Program tensor = Lower(model, ExpertPlan(model, cluster, {.tp = 8, .precision = DType::kBF16}));
  SimOptions options;
  auto lead = [&](Knob knob, double factor) {
    Cluster scaled = Scaled(cluster, knob, factor);
    return Simulate(tensor, scaled, options).step_seconds -
           Simulate(data, scaled, options).step_seconds;
  };
  size_t found = 0;
  for (Knob knob : kKnobs) {
    std::optional<double> factor = FindFlip(knob, data, tensor, cluster, options);
    if (knob == Knob::kOuterLinks) {
      EXPECT_FALSE(factor);
    }
    if (!factor) continue;
    ++found;
    EXPECT_NE(lead(knob, 1) > 0, lead(knob, *factor) > 0) << Name(knob) << " " << *factor;
    double back = *factor > 1 ? *factor / 1.02 : *factor * 1.02;
    EXPECT_EQ(lead(knob, 1) > 0, lead(knob, back) > 0) << Name(knob) << " " << *factor;
    // The order of the arguments does not matter.
    EXPECT_EQ(FindFlip(knob, tensor, data, cluster, options), factor);
  }
  EXPECT_GE(found, 1u);
}

}  // namespace
}  // namespace heddle
