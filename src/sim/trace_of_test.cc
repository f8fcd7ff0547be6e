#include "sim/trace_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "program/text.h"
#include "sim/memory_over_time.h"
#include "sim/sim_test_models.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

using testing::IsEmpty;

struct Made {
  Cluster cluster;
  Program program;
  Simulation simulation;
};

Made Make(const Degrees& degrees, const std::string& cluster, SimOptions options = {}) {
  Made made;
  Model model = Analyse(Layers(8, 32, 64));
  made.cluster = LoadCluster(cluster);
  made.program = Lower(model, ExpertPlan(model, made.cluster, degrees));
  made.simulation = RunSimulation(made.program, made.cluster, options);
  return made;
}

Trace TraceOf(const Made& made, const TraceOptions& options = {}) {
  return ToTrace(MemoryModel(made.program), made.simulation.prepared, made.simulation.timeline,
                 options);
}

TEST(TraceOf, EveryInstructionIsAnEventOfItsName) {
  Made made = Make({.dp = 2, .tp = 2, .pp = 2, .microbatches = 4}, "dgx-h100:1");
  Trace trace = TraceOf(made);
  EXPECT_THAT(Verify(trace), IsEmpty());
  size_t at = 0;
  for (const DeviceClass& of : made.simulation.prepared.classes.devices) {
    for (const Instruction& i : made.program.runs[static_cast<size_t>(of.run)].instructions) {
      ASSERT_LT(at, trace.events.size());
      EXPECT_EQ(trace.events[at].device, of.device);
      EXPECT_EQ(trace.events[at].name, InstructionName(made.program, i));
      EXPECT_EQ(trace.events[at].category, Category(made.program, i));
      EXPECT_LE(trace.events[at].end, made.simulation.result.step_seconds);
      ++at;
    }
    EXPECT_EQ(trace.alike[of.device], of.count);
  }
  EXPECT_EQ(at, trace.events.size());
}

TEST(TraceOf, TransfersOverlapInLanesAndTakeTheTimeOfTheirMessages) {
  // Links are so slow that messages of several micro-batches are in progress at once.
  SimOptions slow;
  slow.slow = {{.device = 1, .factor = 1000, .link = true}};
  Made made = Make({.pp = 4, .microbatches = 8, .schedule = "gpipe"}, "dgx-h100:1", slow);
  Trace trace = TraceOf(made);
  EXPECT_THAT(Verify(trace), IsEmpty());
  std::map<std::string, std::pair<double, double>> sent;
  int lanes = 0;
  for (const TraceEvent& event : trace.events) {
    EXPECT_TRUE(event.stream == Stream::kCommunication || event.lane == 0);
    lanes = std::max(lanes, event.lane + 1);
    if (event.name.starts_with("send ")) sent[event.name.substr(5)] = {event.start, event.end};
  }
  EXPECT_GT(lanes, 1);
  int received = 0;
  for (const TraceEvent& event : trace.events) {
    if (!event.name.starts_with("recv ")) continue;
    ++received;
    ASSERT_TRUE(sent.contains(event.name.substr(5))) << event.name;
    EXPECT_EQ(event.start, sent[event.name.substr(5)].first) << event.name;
    EXPECT_EQ(event.end, sent[event.name.substr(5)].second) << event.name;
  }
  EXPECT_EQ(received, 3 * 8 * 2);
}

TEST(TraceOf, AsManyDevicesOfAClassAsAskedFor) {
  Made made = Make({.dp = 4, .pp = 2, .microbatches = 4}, "dgx-h100:1");
  ASSERT_EQ(made.simulation.result.devices.size(), 2u);
  Trace trace = TraceOf(made, {.per_class = 3, .samples = 10});
  EXPECT_THAT(Verify(trace), IsEmpty());
  std::set<int64_t> devices;
  for (const TraceEvent& event : trace.events) devices.insert(event.device);
  EXPECT_THAT(devices, testing::ElementsAre(0, 1, 2, 4, 5, 6));
  EXPECT_EQ(trace.alike, (std::map<int64_t, int64_t>{{0, 2}, {4, 2}}));
  EXPECT_EQ(TraceOf(made, {.per_class = 100}).alike, (std::map<int64_t, int64_t>{{0, 1}, {4, 1}}));
}

TEST(TraceOf, MemoryCountersReachThePeakOfEveryClass) {
  Made made = Make({.dp = 2, .pp = 2, .microbatches = 8}, "dgx-h100:1");
  for (size_t samples : {size_t{5}, size_t{100'000}}) {
    Trace trace = TraceOf(made, {.samples = samples});
    for (const DeviceResult& device : made.simulation.result.devices) {
      double peak = 0, weights = 0;
      size_t count = 0;
      for (const TraceCounter& counter : trace.counters) {
        if (counter.device != device.device) continue;
        EXPECT_LE(counter.time, made.simulation.result.step_seconds);
        if (counter.name == "memory: weights") weights = counter.value;
        if (counter.name != "memory") continue;
        peak = std::max(peak, counter.value);
        ++count;
      }
      EXPECT_EQ(peak, static_cast<double>(device.peak_memory));
      EXPECT_EQ(weights, static_cast<double>(device.memory.weights));
      EXPECT_LE(count, 2 * samples + 4);
    }
  }
}

TEST(MemoryOverTime, BeginsAndEndsWithWhatStaysBetweenSteps) {
  Made made = Make({.dp = 2, .pp = 2, .microbatches = 8}, "dgx-h100:1");
  MemoryModel model(made.program);
  std::vector<MemorySample> samples =
      MemoryOverTime(model, made.simulation.prepared, made.simulation.timeline, 1);
  MemoryTimeline replay = Replay(model, 1, {.kinds = true});
  EXPECT_EQ(samples.front().time, 0);
  EXPECT_EQ(samples.back().kinds, replay.left);
  for (size_t i = 1; i < samples.size(); ++i) EXPECT_GE(samples[i].time, samples[i - 1].time);
  for (size_t i = 0; i < replay.during.size(); ++i) {
    EXPECT_EQ(replay.most_kinds[i].total(), replay.during[i]) << i;
    EXPECT_EQ(replay.kinds[i].total(), replay.after[i]) << i;
  }
}

}  // namespace
}  // namespace heddle
