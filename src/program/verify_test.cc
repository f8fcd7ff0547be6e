// Verify finds each of these mistakes in programs that are sound without them.
#include "program/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "program/instruction_testing.h"
#include "program/testing.h"

namespace heddle {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

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
      {"GatheredTwice",
       {.tp = 1, .zero = 3},
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

}  // namespace
}  // namespace heddle
