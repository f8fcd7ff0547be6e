// Compares the cost of keeping optimizer state on the host with closed forms.
#include <gtest/gtest.h>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "program/text.h"
#include "program/verify.h"
#include "sim/sim_test_models.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

struct Compared {
  Program program;
  SimResult without, with;
};

Compared Compare(Degrees degrees, int64_t bucket_bytes) {
  Model model = Analyse(Layers(8, 4));
  Cluster cluster = LoadCluster("dgx-h100:1");
  degrees.precision = DType::kBF16;
  Plan plan = ExpertPlan(model, cluster, degrees);
  plan.bucket_bytes = bucket_bytes;
  Compared out;
  out.without = Simulate(Lower(model, plan), cluster, {});
  plan.offload = Offload::kOptimizer;
  out.program = Lower(model, plan);
  out.with = Simulate(out.program, cluster, {});
  return out;
}

double Seconds(const SimResult& result, Opcode op) {
  return result.devices[0].kinds.seconds[static_cast<size_t>(op)];
}

TEST(Offload, CopiesTakeWhatTheLinkTakes) {
  const Link host = LoadCluster("dgx-h100:1").device_types[0].host;
  for (const Degrees& degrees : {Degrees{}, Degrees{.dp = 2, .zero = 1}}) {
    for (int64_t bucket : {int64_t{1}, int64_t{1} << 30}) {
      Compared at = Compare(degrees, bucket);
      const StageProgram& stage = at.program.stages.front();
      const ParameterGroups& groups = stage.groups;
      double elements = 0;
      for (const ParameterGroup& group : groups) {
        elements += static_cast<double>(FlatElements(stage, group, PositionIn(stage, 0)));
      }
      double bytes = 12 * elements / static_cast<double>(degrees.dp);
      double copy = bytes / host.bandwidth + static_cast<double>(groups.size()) * host.latency;
      EXPECT_NEAR(Seconds(at.with, Opcode::kFetch), copy, 1e-9 * copy);
      EXPECT_NEAR(Seconds(at.with, Opcode::kEvict), copy, 1e-9 * copy);
      EXPECT_EQ(Seconds(at.without, Opcode::kFetch), 0);
      EXPECT_NEAR(static_cast<double>(at.with.devices[0].host_memory), bytes, 1);
      // Evictions run after the work of the step; fetches may run before it.
      double longer = at.with.step_seconds - at.without.step_seconds;
      EXPECT_GE(longer, copy - Seconds(at.without, Opcode::kUpdate));
      // Group after group, in both directions at the same time.
      EXPECT_LE(longer, (bucket == 1 ? 1.5 : 2) * copy);
      EXPECT_NEAR(at.with.critical.total(), at.with.step_seconds, 1e-9 * at.with.step_seconds);
    }
  }
}

// A model in shards: weights are fetched for forward and, except for the last shard, for backward; weights and state
// are evicted.
TEST(Offload, WeightsAndStateTakeWhatTheLinkTakes) {
  Model model = Analyse(Layers(24, 4, 1024));
  Cluster cluster = LoadCluster("dgx-h100:1");
  const Link host = cluster.device_types[0].host;
  Plan plan = ExpertPlan(model, cluster, {.offload = Offload::kAll, .precision = DType::kBF16});
  int blocks = plan.stages[0].last_block;
  for (int start = 2; start < blocks; start += 2) plan.stages[0].shard_starts.push_back(start);
  Program program = Lower(model, plan);
  ASSERT_EQ(Verify(program), std::vector<std::string>{});
  SimResult result = Simulate(program, cluster, {});
  double fetched = 0, evicted = 0;
  int fetches = 0, evictions = 0;
  for (const Instruction& at : program.runs[0].instructions) {
    if (at.op != Opcode::kFetch && at.op != Opcode::kEvict) continue;
    bool in = at.op == Opcode::kFetch;
    (in ? fetched : evicted) += static_cast<double>(HostCopyBytes(program, program.runs[0], at, 0));
    ++(in ? fetches : evictions);
  }
  double parameters = 24 * 1024 * 1024;
  EXPECT_EQ(evicted, 14 * parameters);
  EXPECT_GT(fetched, 14 * parameters);
  EXPECT_LE(fetched, 16 * parameters);
  double in = fetched / host.bandwidth + fetches * host.latency;
  double out = evicted / host.bandwidth + evictions * host.latency;
  EXPECT_NEAR(Seconds(result, Opcode::kFetch), in, 1e-9 * in);
  EXPECT_NEAR(Seconds(result, Opcode::kEvict), out, 1e-9 * out);
  // The link is the bottleneck and is used in both directions at once.
  EXPECT_GT(result.step_seconds, std::max(in, out));
  EXPECT_LT(result.step_seconds, 0.75 * (in + out));
  // Fetches run at most one shard ahead.
  plan.prefetch = 0;
  EXPECT_LT(result.step_seconds, Simulate(Lower(model, plan), cluster, {}).step_seconds);
}

// A fetch takes the memory of the buffer that was evicted before it, and waits for that eviction.
TEST(Offload, FetchesTakeTheMemoryOfEvictions) {
  Compared at = Compare({}, 1);
  const DeviceProgram& run = at.program.runs[0];
  int handed = 0;
  for (const Instruction& fetch : run.instructions) {
    if (fetch.op != Opcode::kFetch) continue;
    for (BufferId id : fetch.frees) {
      ++handed;
      bool waits = false;
      for (int other : fetch.waits) {
        const Instruction& evict = run.instructions[static_cast<size_t>(other)];
        waits = waits || (evict.op == Opcode::kEvict && evict.reads[0] == id);
      }
      EXPECT_TRUE(waits);
    }
  }
  EXPECT_EQ(handed, static_cast<int>(at.program.stages.front().groups.size()) - 2);
}

// Between updates no optimizer state is on the device; during updates at most that of two groups.
TEST(Offload, LeavesTheDevice) {
  Compared at = Compare({}, 1);
  MemoryTimeline timeline = Replay(MemoryModel(at.program), 0, {.kinds = true});
  EXPECT_EQ(timeline.held.optimizer, 0);
  EXPECT_EQ(timeline.left, timeline.held);
  int64_t most = 0, largest = 0;
  for (const MemoryKinds& kinds : timeline.most_kinds) most = std::max(most, kinds.optimizer);
  const StageMemory memory = MemoryModel(at.program).Of(StageId{0}, 0);
  for (const StageMemory::Group& group : memory.groups)
    largest = std::max(largest, group.optimizer);
  EXPECT_GE(most, largest);
  EXPECT_LE(most, 2 * largest);
  EXPECT_LT(at.with.peak_memory_bytes, at.without.peak_memory_bytes);
}

}  // namespace
}  // namespace heddle
