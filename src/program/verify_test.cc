// Verify finds nothing wrong with what lowering makes, and finds each of these mistakes.
#include "program/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "program/testing.h"

namespace heddle {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- Finding and changing instructions.

struct Where {
  Opcode op = Opcode::kRun;
  int microbatch = -2;  // any
  Half half = Half::kF;
  SegmentId segment = {};  // invalid: any
};

size_t Find(const DeviceProgram& run, const Where& where, size_t nth = 0) {
  for (size_t i = 0; i < run.instructions.size(); ++i) {
    const Instruction& at = run.instructions[i];
    bool fits = at.op == where.op &&
                (where.microbatch == -2 || at.microbatch == where.microbatch) &&
                (!where.segment.valid() || at.target == InstructionTarget(where.segment)) &&
                (at.op != Opcode::kRun || at.half == where.half);
    if (fits && nth-- == 0) return i;
  }
  HEDDLE_CHECK(false, "there is no {}", NameOf(where.op));
  return 0;
}

// Puts the instructions in another order (or leaves some out); waits follow.
void Reorder(DeviceProgram& run, const std::vector<size_t>& order) {
  std::vector<int> moved(run.instructions.size(), -1);
  std::vector<Instruction> list;
  for (size_t i : order) {
    moved[i] = static_cast<int>(list.size());
    list.push_back(run.instructions[i]);
  }
  for (Instruction& at : list) {
    std::vector<int> waits;
    for (int wait : at.waits) {
      if (moved[static_cast<size_t>(wait)] >= 0) waits.push_back(moved[static_cast<size_t>(wait)]);
    }
    at.waits = waits;
  }
  run.instructions = std::move(list);
}

std::vector<size_t> OrderOf(const DeviceProgram& run) {
  std::vector<size_t> order(run.instructions.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  return order;
}

void Erase(DeviceProgram& run, size_t i) {
  std::vector<size_t> order = OrderOf(run);
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
  Reorder(run, order);
}

// Instruction `i` to just after `target` (or, backward, to just before it).
void Move(DeviceProgram& run, size_t i, size_t target) {
  std::vector<size_t> order = OrderOf(run);
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(target), i);
  Reorder(run, order);
}

Instruction& At(DeviceProgram& run, const Where& where, size_t nth = 0) {
  return run.instructions[Find(run, where, nth)];
}

// The instruction that frees something, from `from` on.
Instruction& Frees(DeviceProgram& run, size_t from = 0) {
  for (size_t i = from; i < run.instructions.size(); ++i) {
    if (!run.instructions[i].frees.empty()) return run.instructions[i];
  }
  return run.instructions.back();
}

ReshardStep& StepOf(Program& program, StepKind kind) {
  for (StageProgram& stage : program.stages) {
    for (ReshardStep& step : stage.steps) {
      if (step.kind == kind) return step;
    }
  }
  HEDDLE_CHECK(false, "there is no {}", Name(kind));
  return program.stages.front().steps.front();
}

// ---- Mistakes.

struct Mistake {
  std::string name;
  SmallPlanOptions options;
  std::function<void(Program&)> make;
  std::string message;  // part of a line
  int layers = 4;
  bool tied = false;
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

const SmallPlanOptions kOneStage = {.microbatches = 2};
const SmallPlanOptions kTwoStages = {.stages = 2, .microbatches = 2};
const SmallPlanOptions kPlainPipeline = {.dp = 1, .tp = 1, .stages = 2};

std::vector<Mistake> Messages() {
  return {
      {"DroppedReceive", kTwoStages,
       [](Program& p) { Erase(p.runs[1], Find(p.runs[1], {Opcode::kRecv})); },
       "device 0 sends 1 times to device 4, which receives 0"},
      {"DroppedReceiveIsRead", kTwoStages,
       [](Program& p) { Erase(p.runs[1], Find(p.runs[1], {Opcode::kRecv})); },
       "(F seg1.1 mb0): reads m2 mb0 before it is written"},
      {"DroppedSend", kTwoStages,
       [](Program& p) { Erase(p.runs[0], Find(p.runs[0], {Opcode::kSend})); },
       "device 0 sends 0 times to device 4, which receives 1"},
      {"DroppedSendIsAwaited", kTwoStages,
       [](Program& p) { Erase(p.runs[0], Find(p.runs[0], {Opcode::kSend})); },
       "(F seg1.1 mb0) waits for ever for instruction 6 (recv m2 mb0)"},
      {"SendAfterTheAnswer", kTwoStages,
       [](Program& p) {
         Move(p.runs[0], Find(p.runs[0], {Opcode::kSend}),
              Find(p.runs[0], {.microbatch = 0, .half = Half::kBW}));
       },
       "waits for ever for instruction"},
      {"WrongTransfer", kTwoStages,
       [](Program& p) { At(p.runs[0], {Opcode::kSend}).target = TransferId{1}; },
       "its index 1 is out of range"},
      {"WrongMicrobatchOfASend", kTwoStages,
       [](Program& p) {
         At(p.runs[0], {Opcode::kSend, 0}).microbatch = 1;
       },
       "reads m2 mb0, must be m2 mb1"},
      {"SentTwice", kTwoStages,
       [](Program& p) {
         std::vector<Instruction>& list = p.runs[0].instructions;
         list.push_back(At(p.runs[0], {Opcode::kSend, 0}));
       },
       "device 0 sends 2 times to device 4, which receives 1"},
      {"PartialTransfer", kTwoStages,
       [](Program& p) {
         const StageTransfer& transfer = p.transfers.front();
         p.stages.front().locals[transfer.from_local].sharding.partial[1] = PartialState::kSum;
       },
       "a partial value is sent"},
  };
}

std::vector<Mistake> Groups() {
  return {
      {"SwappedCollectives", kPlainPipeline,
       [](Program& p) {
         Move(p.runs[1], Find(p.runs[1], {Opcode::kSyncTied}), Find(p.runs[1], {Opcode::kReport}));
       },
       "at this place of the group", 3, true},
      {"WrongAxes", kOneStage,
       [](Program& p) {
         ReshardStep& step = StepOf(p, StepKind::kAllReduce);
         step.axes = step.axes == AxisSet(0) ? AxisSet(1) : AxisSet(0);
       },
       "no all-reduce over these axes leads from"},
      {"OtherSharding", kOneStage,
       [](Program& p) { StepOf(p, StepKind::kAllReduce).before = Replicated({}); },
       "its step starts from []"},
      {"OtherEnd", kOneStage,
       [](Program& p) {
         StepOf(p, StepKind::kAllReduce).after = Replicated({8, 2});
       },
       "its step ends in [8,2]"},
      {"PayloadsDiffer",
       {.dp = 2, .tp = 1, .stages = 2, .zero = 1},
       [](Program& p) {
         StageId last{1};
         ParameterGroup& group = p.stages[last].groups[p.tied.front().GroupOn(last)];
         group.slots[0].sharding = Replicated({8, 16});
       },
       "all-reduce of 512 bytes, on device 2 all-reduce of 256 bytes",
       3,
       true},
      {"TiedStoredOtherwise",
       {.stages = 2},
       [](Program&) {},
       "stage 1 holds it otherwise than stage 0",
       4,
       true},
      {"NotAllTakePart", kPlainPipeline,
       [](Program& p) { Erase(p.runs[1], Find(p.runs[1], {Opcode::kSyncTied})); },
       "devices 1 do not take part", 3, true},
      {"TiedNotSummed", kPlainPipeline,
       [](Program& p) { Erase(p.runs[1], Find(p.runs[1], {Opcode::kSyncTied})); },
       "tied group 0 is summed 0 times, must be 1", 3, true},
      {"InputInAnotherSharding", kOneStage,
       [](Program& p) {
         LocalId local = p.stages.front().segments[SegmentId{1}].inputs.front().local;
         p.stages.front().locals[local].sharding = Replicated({4, 16});
       },
       "x: an input is in [4,16], must be in [4/dp,16]"},
      {"GatheredAgainButNeverGathered", kOneStage,
       [](Program& p) { p.stages.front().segments[SegmentId{1}].inputs.front().again = true; },
       "x: it is gathered again and was never gathered"},
  };
}

std::vector<Mistake> Lifetimes() {
  return {
      {"EarlyFree", kOneStage,
       [](Program& p) {
         Instruction& load = At(p.runs[0], {Opcode::kLoad});
         load.frees = load.writes;
       },
       "(F seg0 mb0): reads labels mb0 after it was freed"},
      {"DoubleFree", kOneStage,
       [](Program& p) {
         Instruction& free = Frees(p.runs[0]);
         free.frees.push_back(free.frees[0]);
       },
       "frees count mb0 a second time"},
      {"MissingFree", kOneStage, [](Program& p) { Frees(p.runs[0]).frees.clear(); },
       "count mb1 is never freed"},
      {"PersistentFreed", kOneStage,
       [](Program& p) { Frees(p.runs[0]).frees.push_back(p.runs[0].persistent[0]); },
       "frees weights group0 which is persistent"},
      {"NotPersistent", kOneStage, [](Program& p) { p.runs[0].persistent.clear(); },
       "weights group0 is not persistent"},
      {"DoubleWrite", kOneStage,
       [](Program& p) { p.runs[0].instructions.push_back(At(p.runs[0], {Opcode::kLoad})); },
       "writes labels mb0 a second time"},
      {"ReadBeforeWritten", kOneStage,
       [](Program& p) { Erase(p.runs[0], Find(p.runs[0], {Opcode::kLoad})); },
       "reads labels mb0 before it is written"},
      {"AddAfterRead", kOneStage,
       [](Program& p) {
         Move(p.runs[0], Find(p.runs[0], {Opcode::kReduceGradients}),
              Find(p.runs[0], {.half = Half::kBW}, 8));
       },
       "adds to gradients group0 after it was read"},
      {"GatheredTwice", {.tp = 1, .zero = 3},
       [](Program& p) {
         size_t first = Find(p.runs[0], {Opcode::kGatherWeights});
         std::vector<Instruction>& list = p.runs[0].instructions;
         Instruction again = list[first];
         Buffer buffer = p.runs[0].buffers[again.writes[0]];
         buffer.version = 100;
         again.writes = {p.runs[0].buffers.Add(buffer)};
         list.insert(list.begin() + static_cast<std::ptrdiff_t>(first) + 1, again);
       },
       "while the weights gathered before are there"},
      {"MissingWait", kOneStage, [](Program& p) { At(p.runs[0], {}).waits.clear(); },
       "(F seg0 mb0): does not wait for labels mb0 from instruction 0, of another stream"},
      {"WaitsForward", kOneStage, [](Program& p) { p.runs[0].instructions[3].waits.push_back(4); },
       "waits for instruction 4, which is not before it"},
      {"WrongStream", kOneStage,
       [](Program& p) { At(p.runs[0], {Opcode::kSum}).stream = Stream::kCopy; },
       "is on the copy stream, must be on compute"},
  };
}

std::vector<Mistake> Orders() {
  return {
      {"BackwardBeforeForward", kOneStage,
       [](Program& p) {
         Move(p.runs[0], Find(p.runs[0], {.microbatch = 0, .half = Half::kBW}), 0);
       },
       "segment 6 of stage 0, micro-batch 0: its halves are out of order"},
      {"MissingForward", kOneStage,
       [](Program& p) {
         Erase(p.runs[0], Find(p.runs[0], {.microbatch = 1, .segment = SegmentId{3}}));
       },
       "segment 3 of stage 0, micro-batch 1: F runs 0 times, must be 1"},
      {"WrongMicrobatch", kOneStage,
       [](Program& p) { At(p.runs[0], {.microbatch = 0, .segment = SegmentId{3}}).microbatch = 1; },
       "(F seg3 mb1): reads m1 mb0, must be m1 mb1"},
      {"MissingWeightHalf",
       {.microbatches = 2, .schedule = "zb-h1"},
       [](Program& p) { Erase(p.runs[0], Find(p.runs[0], {.half = Half::kW})); },
       "W runs 0 times, must be 1"},
      {"MissingRecomputation",
       {.recompute = RecomputePolicy::kFull},
       [](Program& p) {
         for (size_t i = p.runs[0].instructions.size(); i-- > 0;) {
           if (p.runs[0].instructions[i].recompute) return Erase(p.runs[0], i);
         }
       },
       "recomputation runs 0 times, must be 1"},
      {"MissingUpdate", kOneStage,
       [](Program& p) { Erase(p.runs[0], Find(p.runs[0], {Opcode::kUpdate})); },
       "group 0 of stage 0 is updated 0 times, must be 1"},
      {"UpdatedTwice", kOneStage,
       [](Program& p) { p.runs[0].instructions.push_back(At(p.runs[0], {Opcode::kUpdate})); },
       "group 0 of stage 0 is updated 2 times, must be 1"},
      {"MissingReduction",
       {.microbatches = 2, .zero = 2},
       [](Program& p) {
         Erase(p.runs[0], Find(p.runs[0], {Opcode::kReduceGradients, 0}));
       },
       "group 0 of stage 0 is reduced for micro-batch 0 0 times, must be 1"},
      {"ReducedOverTooFew", kOneStage,
       [](Program& p) { p.stages.front().groups.front().reduce_axes = AxisSet(1); },
       "partial along an axis that its group does not reduce"},
      {"MissingGather",
       {.zero = 1},
       [](Program& p) { Erase(p.runs[0], Find(p.runs[0], {Opcode::kGatherWeights})); },
       "is gathered after its update 0 times, must be 1"},
      {"MissingFetch",
       {.offload = Offload::kOptimizer},
       [](Program& p) { Erase(p.runs[0], Find(p.runs[0], {Opcode::kFetch})); },
       "is fetched before its update 0 times, must be 1"},
      {"MissingEvict",
       {.offload = Offload::kOptimizer},
       [](Program& p) { Erase(p.runs[0], Find(p.runs[0], {Opcode::kEvict})); },
       "is evicted after its update 0 times, must be 1"},
      {"EvictedTooEarly",
       {.offload = Offload::kOptimizer},
       [](Program& p) {
         Move(p.runs[0], Find(p.runs[0], {Opcode::kEvict}), Find(p.runs[0], {Opcode::kUpdate}));
       },
       "is evicted after its update 0 times, must be 1"},
      {"FetchedByCompute",
       {.offload = Offload::kOptimizer},
       [](Program& p) { At(p.runs[0], {Opcode::kFetch}).stream = Stream::kCompute; },
       "is on the compute stream, must be on copy"},
      {"FetchedFromNowhere",
       {.offload = Offload::kOptimizer},
       [](Program& p) { At(p.runs[0], {Opcode::kFetch}).reads.clear(); },
       "(fetch group0): reads 0 buffers, must be 1"},
      {"OffloadedAndUntouched",
       {.offload = Offload::kOptimizer},
       [](Program& p) { p.stages.front().groups.front().offloaded = false; },
       "optimizer group0 is not persistent"},
      {"Untrained", kOneStage, [](Program& p) { p.stages.front().groups.front().trained = false; },
       "parameter w0 is in no trained group of stage 0"},
      {"MissingReport", kOneStage,
       [](Program& p) { Erase(p.runs[0], Find(p.runs[0], {Opcode::kReport})); },
       "there are 0 reports, must be 1"},
      {"UnknownSegment", kOneStage, [](Program& p) { At(p.runs[0], {}).target = SegmentId{99}; },
       "its index 99 is out of range"},
      {"UnknownMicrobatch", kOneStage, [](Program& p) { At(p.runs[0], {}).microbatch = 2; },
       "there is no micro-batch 2"},
      {"AnotherRunsStage", kTwoStages, [](Program& p) { At(p.runs[0], {}).stage = StageId{1}; },
       "stage 1 is not of this run"},
      {"UnknownBuffer", kOneStage, [](Program& p) { At(p.runs[0], {}).reads[0] = BufferId{9999}; },
       "there is no buffer 9999"},
      {"NoRun", kTwoStages, [](Program& p) { p.runs.pop_back(); },
       "stage 1 is run by 0 devices, must be 4"},
  };
}

std::vector<Mistake> AllMistakes() {
  std::vector<Mistake> all;
  for (auto list : {Messages(), Groups(), Lifetimes(), Orders()})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

class VerifyProgramTest : public testing::TestWithParam<Mistake> {};

TEST_P(VerifyProgramTest, IsFound) {
  const Mistake& mistake = GetParam();
  Program program = SmallProgram(mistake.options, mistake.layers, mistake.tied);
  if (mistake.name != "TiedStoredOtherwise") {
    ASSERT_THAT(Verify(program), IsEmpty());
  }
  mistake.make(program);
  EXPECT_THAT(Verify(program), Contains(HasSubstr(mistake.message)));
}

INSTANTIATE_TEST_SUITE_P(Mistakes, VerifyProgramTest, testing::ValuesIn(AllMistakes()),
                         [](const auto& info) { return info.param.name; });

TEST(VerifyWholeProgramTest, EverySchedulePolicyAndLevelIsSound) {
  for (const ScheduleDef& schedule : AllSchedules()) {
    for (size_t stages : {size_t{1}, size_t{2}}) {
      for (int zero = 0; zero <= 3; ++zero) {
        for (RecomputePolicy recompute :
             {RecomputePolicy::kNone, RecomputePolicy::kSelective, RecomputePolicy::kFull}) {
          SmallPlanOptions options{.stages = stages,
                                   .microbatches = 4,
                                   .schedule = std::string(schedule.name),
                                   .zero = zero,
                                   .recompute = recompute};
          for (Offload offload : {Offload::kNone, Offload::kOptimizer}) {
            options.offload = offload;
            EXPECT_THAT(Verify(SmallProgram(options, 8)), IsEmpty())
                << schedule.name << " stages " << stages << " zero " << zero;
          }
        }
      }
    }
  }
}

// Above kJointDevices a device stands for its run, and mistakes between runs are still found.
TEST(VerifyWholeProgramTest, LargeProgramsAreCheckedRunByRun) {
  SmallPlanOptions options{.dp = 16, .tp = 4, .stages = 2, .microbatches = 2};
  Program program = SmallProgram(options);
  ASSERT_GT(program.device_count(), kJointDevices);
  EXPECT_THAT(Verify(program), IsEmpty());
  Erase(program.runs[0], Find(program.runs[0], {Opcode::kSend}));
  EXPECT_THAT(Verify(program),
              Contains(HasSubstr("waits for ever for instruction 6 (recv m2 mb0)")));
}

// Of stages whose devices take turns: groups are the same ones from whichever member they are looked at.
TEST(VerifyWholeProgramTest, LargeProgramsOnDevicesThatTakeTurns) {
  Model model = SmallModel();
  Plan plan = SmallPlan(model, {.dp = 16, .tp = 4, .stages = 2, .microbatches = 2});
  for (int64_t s = 0; s < 2; ++s) {
    std::vector<int64_t> devices;
    for (int64_t d = 0; d < 32; ++d) devices.push_back(32 * s + d);
    for (int64_t d = 0; d < 32; ++d) devices.push_back(64 + 32 * s + d);
    Place(plan.stages[static_cast<size_t>(s)].mesh, devices);
  }
  Program program = Lower(model, plan);
  ASSERT_GT(program.device_count(), kJointDevices);
  EXPECT_THAT(Verify(program), IsEmpty());
}

// Who frees what another stream reads waits for it.
TEST(VerifyWholeProgramTest, FreedWhileItIsEvicted) {
  Model model = SmallModel(8);
  Plan plan = SmallPlan(model, {.offload = Offload::kOptimizer});
  plan.bucket_bytes = 1;
  Program program = Lower(model, plan);
  EXPECT_THAT(Verify(program), IsEmpty());
  int changed = 0;
  for (Instruction& at : program.runs[0].instructions) {
    if (at.op != Opcode::kFetch || at.frees.empty()) continue;
    at.waits.clear();
    ++changed;
  }
  EXPECT_GT(changed, 0);
  EXPECT_THAT(Verify(program), Contains(HasSubstr("and does not wait for instruction")));
}

TEST(VerifyWholeProgramTest, NoMoreLinesThanItSays) {
  Program program = SmallProgram({.dp = 4, .microbatches = 2}, 12);
  for (Instruction& instruction : program.runs[0].instructions) instruction.frees.clear();
  EXPECT_EQ(Verify(program).size(), kMaxFindings);
}

}  // namespace
}  // namespace heddle
