// The runtime and the simulator run the same instructions in the same order. Compares the trace of every device in a
// real step with the timeline of its class in the simulator.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "program/text.h"
#include "runtime/allocation_meter.h"
#include "runtime/train.h"
#include "runtime/transport/threads.h"
#include "sim/engine.h"
#include "sim/memory.h"

namespace heddle {
namespace {

constexpr int64_t kRunSteps = 2;

struct OrderCase {
  std::string name;
  Degrees degrees;
};
void PrintTo(const OrderCase& c, std::ostream* out) { *out << c.name; }

std::vector<OrderCase> OrderCases() {
  return {
      {"one", {}},
      {"dp", {.dp = 2}},
      {"tp", {.tp = 2}},
      {"tp_sp", {.tp = 2, .sp = true}},
      {"dp_tp", {.dp = 2, .tp = 2}},
      {"cp", {.cp = 2}},
      {"pp_1f1b", {.pp = 2, .microbatches = 4, .schedule = "1f1b"}},
      {"pp_interleaved", {.pp = 2, .microbatches = 2, .chunks = 2, .schedule = "interleaved"}},
      {"pp_zb_h1", {.pp = 2, .microbatches = 4, .schedule = "zb-h1"}},
      {"pp_unlike_meshes", {.dp = 2, .tp = 2, .pp = 2, .sp = true, .microbatches = 2}},
      {"zero1", {.dp = 2, .zero = 1}},
      {"zero2_microbatches", {.dp = 2, .microbatches = 2, .zero = 2}},
      {"zero3", {.dp = 2, .zero = 3}},
      {"zero3_recompute",
       {.dp = 2, .microbatches = 2, .zero = 3, .recompute = RecomputePolicy::kFull}},
      {"tp_selective",
       {.tp = 2, .sp = true, .microbatches = 2, .recompute = RecomputePolicy::kSelective}},
      {"pp_recompute", {.tp = 2, .pp = 2, .microbatches = 2, .recompute = RecomputePolicy::kFull}}};
}

using Streams = std::array<std::vector<std::string>, kStreamNames.size()>;

std::vector<std::string>& Of(Streams& streams, Stream stream) {
  return streams[static_cast<size_t>(stream)];
}

// The instructions of a class of devices, in the order of its list.
Streams Simulated(const Program& program, const Prepared& prepared, size_t device_class) {
  const DeviceClass& of = prepared.classes.devices[device_class];
  const DeviceProgram& run = program.runs[static_cast<size_t>(of.run)];
  EXPECT_EQ(prepared.lists[static_cast<size_t>(of.run)].tasks.size(), run.instructions.size());
  Streams streams;
  for (const Instruction& instruction : run.instructions)
    Of(streams, instruction.stream).push_back(InstructionName(program, instruction));
  return streams;
}

// Checks that every task ran within the step, and that compute tasks ran one after the other in the order of the list.
void CheckTimes(const Program& program, const Prepared& prepared, const Timeline& timeline,
                size_t device_class) {
  const DeviceClass& of = prepared.classes.devices[device_class];
  const DeviceProgram& run = program.runs[static_cast<size_t>(of.run)];
  const std::vector<TaskTimes>& times = timeline.times[device_class];
  ASSERT_EQ(times.size(), run.instructions.size());
  std::array<double, kStreamNames.size()> last_start = {}, last_end = {};
  for (size_t t = 0; t < times.size(); ++t) {
    const Instruction& instruction = run.instructions[t];
    SCOPED_TRACE(InstructionName(program, instruction));
    EXPECT_GE(times[t].ready, 0);
    EXPECT_GE(times[t].start, times[t].ready);
    EXPECT_GE(times[t].end, times[t].start);
    EXPECT_LE(times[t].end, timeline.seconds);
    if (instruction.stream == Stream::kCommunication)
      continue;  // communicators overtake each other
    size_t stream = static_cast<size_t>(instruction.stream);
    EXPECT_GE(times[t].start, last_start[stream]);
    EXPECT_GE(times[t].start, last_end[stream]);
    last_start[stream] = times[t].start;
    last_end[stream] = times[t].end;
  }
}

TrainSummary TrainForReal(const Model& model, const Program& program) {
  WeightSource weights = MakeWeights(model.graph, model.rules, {});
  ConstantSource constants = MakeConstants(model.graph, {});
  std::unique_ptr<DataSource> data = OpenData(model.graph, {});
  TrainOptions options;
  options.steps = kRunSteps;
  options.lr.lr = 1e-3;
  options.trace = true;
  TrainSummary summary;
  MeterAllocations();
  RunRanks(static_cast<int>(program.device_count()), [&](Transport& transport) {
    TrainInputs inputs{program, weights, constants, *data};
    TrainSummary mine = TrainDevice(inputs, options, transport, [](const StepRecord&) {});
    if (transport.rank() == 0) summary = std::move(mine);
  });
  return summary;
}

class SameOrder : public testing::TestWithParam<OrderCase> {
 protected:
  SameOrder()
      : model_(Analyse(LoadModel("gpt:layers=4,hidden=32,heads=4,seq=16,vocab=50,batch=8"))),
        cluster_(LoadCluster("local:" + std::to_string(DevicesOf(GetParam().degrees)))),
        program_(Lower(model_, ExpertPlan(model_, cluster_, GetParam().degrees))) {}

  Model model_;
  Cluster cluster_;
  Program program_;
};

TEST_P(SameOrder, RealAndSimulatedDevicesRunTheSame) {
  TrainSummary summary = TrainForReal(model_, program_);
  ASSERT_EQ(Verify([&] {
              Trace trace = summary.trace;
              ClipOverlaps(trace);
              return trace;
            }()),
            std::vector<std::string>{});
  std::vector<Streams> real(static_cast<size_t>(program_.device_count()));
  std::map<std::pair<int64_t, Stream>, double> until;
  for (const TraceEvent& event : summary.trace.events) {
    EXPECT_GE(event.end, event.start) << event.name;
    if (event.stream != Stream::kCommunication) {
      EXPECT_GE(event.start, (until[{event.device, event.stream}])) << event.name;
      until[{event.device, event.stream}] = event.end;
    }
    Of(real[static_cast<size_t>(event.device)], event.stream).push_back(event.name);
  }
  Prepared prepared = Prepare(program_, cluster_, {});
  Timeline timeline = Execute(prepared);
  for (size_t c = 0; c < prepared.classes.devices.size(); ++c)
    CheckTimes(program_, prepared, timeline, c);
  for (int64_t device = 0; device < program_.device_count(); ++device) {
    SCOPED_TRACE(device);
    Streams step =
        Simulated(program_, prepared,
                  static_cast<size_t>(prepared.classes.class_of[static_cast<size_t>(device)]));
    for (size_t s = 0; s < step.size(); ++s) {
      std::vector<std::string> all;
      for (int64_t n = 0; n < kRunSteps; ++n) all.insert(all.end(), step[s].begin(), step[s].end());
      EXPECT_EQ(real[static_cast<size_t>(device)][s], all) << kStreamNames[s];
    }
  }
}

TEST_P(SameOrder, TimeAndMemoryAreMeasured) {
  TrainSummary summary = TrainForReal(model_, program_);
  ASSERT_EQ(summary.devices.size(), static_cast<size_t>(program_.device_count()));
  const StepRecord& median = summary.steps[summary.median_step];
  double total = 0;
  for (double seconds : summary.devices[0].kind_seconds) total += seconds;
  EXPECT_NEAR(total, median.seconds, 1e-9 + 1e-6 * median.seconds);
  std::vector<double> most(summary.devices.size(), 0), last(summary.devices.size(), 0);
  for (const TraceCounter& counter : summary.trace.counters) {
    EXPECT_EQ(counter.name, "memory");
    double& held = most[static_cast<size_t>(counter.device)];
    held = std::max(held, counter.value);
    last[static_cast<size_t>(counter.device)] = counter.value;
  }
  MemoryModel memory(program_);
  for (size_t d = 0; d < summary.devices.size(); ++d) {
    SCOPED_TRACE(d);
    const DeviceMeasurement& device = summary.devices[d];
    for (size_t k = 0; k < kOpcodeCount; ++k) {
      bool occurs = false;
      for (const Instruction& i : program_.RunOf(static_cast<int64_t>(d)).instructions)
        occurs = occurs || static_cast<size_t>(i.op) == k;
      EXPECT_EQ(device.kind_seconds[k] > 0, occurs) << AllOpcodes()[k].name;
    }
    EXPECT_GT(device.peak_memory_bytes, 0);
    EXPECT_LE(device.peak_memory_bytes, summary.peak_memory_bytes);
    EXPECT_GT(most[d], 0);
    EXPECT_LE(most[d], static_cast<double>(device.peak_memory_bytes));
    // Between steps a device holds the predicted bytes: weights, state, constants. (Samples leave out small changes,
    // and the rows of the batch stay until the next step.)
    double held = static_cast<double>(Replay(memory, static_cast<int64_t>(d)).held.total());
    EXPECT_NEAR(last[d], held, 0.02 * held + most[d] / 256 + 2048);
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, SameOrder, testing::ValuesIn(OrderCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace heddle
