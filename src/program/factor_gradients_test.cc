// Gradients from factors, and groups with a server: what lowering makes of them, and the mistakes that Verify finds.
#include "program/factor_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "program/testing.h"
#include "program/text.h"
#include "program/verify.h"

namespace heddle {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const SmallPlanOptions kFactors = {.microbatches = 2, .sync = GradientSync::kFactors};
const SmallPlanOptions kServer = {.microbatches = 2, .sync = GradientSync::kServer};

size_t Find(const DeviceProgram& run, Opcode op) {
  for (size_t i = 0; i < run.instructions.size(); ++i) {
    if (run.instructions[i].op == op) return i;
  }
  HEDDLE_CHECK(false, "there is no {}", NameOf(op));
  return 0;
}

Instruction& First(Program& program, Opcode op) {
  return program.runs[0].instructions[Find(program.runs[0], op)];
}

struct FactorMistake {
  std::string name;
  SmallPlanOptions options;
  std::function<void(Program&)> make;
  std::string message;  // part of a line
};
void PrintTo(const FactorMistake& mistake, std::ostream* out) { *out << mistake.name; }

std::vector<FactorMistake> FactorMistakes() {
  auto first = [](Program& p) -> FactorGradient& {
    return p.stages.front().factor_gradients.front();
  };
  return {
      {"UnknownNode", kFactors, [=](Program& p) { first(p).node = NodeId{99}; },
       "factor gradient 0: a node, Local or segment is out of range"},
      {"UnknownOperand", kFactors, [=](Program& p) { first(p).operand = 2; }, "is out of range"},
      {"UnknownFactor", kFactors, [=](Program& p) { first(p).factors[0] = LocalId{}; },
       "is out of range"},
      {"NoParameter", kFactors, [=](Program& p) { first(p).parameter = first(p).factors[0]; },
       "is out of range"},
      {"UnknownGradient", kFactors,
       [](Program& p) { First(p, Opcode::kFactorGradient).target = FactorGradientId{9}; },
       "its index 9 is out of range"},
      {"AnotherSegment", kFactors, [=](Program& p) { first(p).segment = SegmentId{3}; },
       "its segment does not run its node"},
      {"OneFactorTooFew", kFactors, [=](Program& p) { first(p).factors.pop_back(); },
       "these are not the factors of the operand's gradient"},
      {"FactorsExchanged", kFactors,
       [=](Program& p) { std::swap(first(p).factors[0], first(p).factors[1]); },
       "a Local is of another value"},
      {"NotGathered", kFactors, [=](Program& p) { first(p).axes = 0; }, "must be in [4/dp,16]"},
      {"NotGatheredIsPartial", kFactors, [=](Program& p) { first(p).axes = 0; },
       "it is partial although it is gathered"},
      {"ReducedBesides", kFactors,
       [=](Program& p) {
         StageProgram& stage = p.stages.front();
         const Local& parameter = stage.locals[first(p).parameter];
         stage.groups[parameter.As<FromParameter>().group].reduce_axes = 1;
       },
       "its group is reduced although it is complete"},
      {"TrainedBesides", kFactors,
       [=](Program& p) {
         Segment& segment = p.stages.front().segments[first(p).segment];
         for (SegmentInput& input : segment.inputs) {
           if (input.local == first(p).parameter) input.trained = true;
         }
       },
       "a gradient is asked for that there is not"},
      {"NobodyComputesIt", kFactors,
       [](Program& p) { p.stages.front().factor_gradients.pop_back(); },
       "its index 3 is out of range"},
      {"ReadsAnother", kFactors,
       [](Program& p) {
         Instruction& at = First(p, Opcode::kFactorGradient);
         at.reads[0] = at.reads[1];
       },
       "must be h2 mb0"},
      {"AtAnotherMicrobatch", kFactors,
       [](Program& p) { First(p, Opcode::kFactorGradient).microbatch = 1; },
       "micro-batch 0, is computed 0 times, must be 1"},
      {"OnAnotherStream", kFactors,
       [](Program& p) { First(p, Opcode::kFactorGradient).stream = Stream::kCopy; },
       "is on the copy stream, must be on compute"},
      {"UnknownServer", kServer, [](Program& p) { p.stages.front().groups.front().server = 2; },
       "its server is out of range"},
      {"StateOfAServerIsSplit", kServer,
       [](Program& p) {
         p.stages.front().groups.front().zero = 1;
         p.stages.front().groups.front().zero_axes = 1;
       },
       "it has a server, and its state is split"},
      {"WeightsNotSent", kServer, [](Program& p) { p.runs[0].instructions.pop_back(); },
       "is gathered after its update 0 times, must be 1"},
  };
}

class VerifyFactorsTest : public testing::TestWithParam<FactorMistake> {};

TEST_P(VerifyFactorsTest, IsFound) {
  Program program = SmallProgram(GetParam().options);
  ASSERT_THAT(Verify(program), IsEmpty());
  GetParam().make(program);
  EXPECT_THAT(Verify(program), Contains(HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(Mistakes, VerifyFactorsTest, testing::ValuesIn(FactorMistakes()),
                         [](const auto& info) { return info.param.name; });

TEST(FactorGradientsTest, EveryScheduleAndPolicyIsSound) {
  for (const ScheduleDef& schedule : AllSchedules()) {
    for (size_t stages : {size_t{1}, size_t{2}}) {
      for (RecomputePolicy recompute :
           {RecomputePolicy::kNone, RecomputePolicy::kSelective, RecomputePolicy::kFull}) {
        for (GradientSync sync : {GradientSync::kServer, GradientSync::kFactors}) {
          SmallPlanOptions options{.stages = stages,
                                   .microbatches = 4,
                                   .schedule = std::string(schedule.name),
                                   .zero = 1,
                                   .recompute = recompute,
                                   .offload = Offload::kOptimizer,
                                   .sync = sync};
          EXPECT_THAT(Verify(SmallProgram(options, 8)), IsEmpty())
              << schedule.name << " stages " << stages;
          EXPECT_THAT(Verify(SmallProgram(options, 9, /*tied=*/true)), IsEmpty())
              << schedule.name << " stages " << stages << " tied";
        }
      }
    }
  }
}

// An input is loaded whole, an activation gathered, and what comes back gathered once.
TEST(FactorGradientsTest, ReadsAsExpected) {
  EXPECT_EQ(ToText(SmallProgram({.tp = 1, .sync = GradientSync::kFactors}, 2), 0),
            R"(device 0: 17 instructions, stages 0
    0 copy           load labels mb0: -> labels mb0 i64[8/dp] 32 B
    1 copy           load x mb0: -> x mb0 f32[8/dp,16] 256 B
    2 compute        F seg0 mb0: LabelCount, MatMul; reads labels mb0, x mb0, weights group0 -> count mb0 f32[] sum(dp) 4 B, m0 mb0 f32[8/dp,16] 256 B, saved seg0 mb0; waits 0,1; frees x mb0
    3 compute        F seg1 mb0: Relu, MatMul; reads m0 mb0, weights group0 -> h0 mb0 f32[8/dp,16] 256 B, m1 mb0 f32[8/dp,16] 256 B, saved seg1 mb0; frees m0 mb0
    4 communication  all-reduce count mb0: over {0,1} 4 B; reads count mb0 -> count mb0 f32[] 4 B; waits 2; frees count mb0
    5 compute        F seg2 mb0: Relu, CrossEntropy; reads m1 mb0, labels mb0, count mb0 -> loss mb0 f32[] sum(dp) 4 B, saved seg2 mb0; waits 0,4; frees labels mb0, m1 mb0, count mb0
    6 compute        BW seg2 mb0: Relu, CrossEntropy; reads nothing, saved seg2 mb0 -> grad m1 mb0 f32[8/dp,16] 256 B; frees saved seg2 mb0
    7 communication  all-gather h0 mb0: over {0,1} 256 B; reads h0 mb0 -> h0 mb0 f32[8,16] 512 B; waits 3; frees h0 mb0
    8 communication  all-gather grad m1 mb0: over {0,1} 256 B; reads grad m1 mb0 -> grad m1 mb0 f32[8,16] 512 B; waits 6
    9 compute        BW seg1 mb0: Relu, MatMul; reads nothing, grad m1 mb0, saved seg1 mb0 -> grad m0 mb0 f32[8/dp,16] 256 B; frees saved seg1 mb0, grad m1 mb0
   10 copy           load x mb0: -> x mb0 f32[8,16] 512 B
   11 communication  all-gather grad m0 mb0: over {0,1} 256 B; reads grad m0 mb0 -> grad m0 mb0 f32[8,16] 512 B; waits 9
   12 compute        BW seg0 mb0: LabelCount, MatMul; reads nothing, grad m0 mb0, saved seg0 mb0; frees saved seg0 mb0, grad m0 mb0
   13 compute        factor-gradient w1 mb0: reads h0 mb0, grad m1 mb0 += gradients group0 2.00 KiB; waits 7,8; frees h0 mb0, grad m1 mb0
   14 compute        factor-gradient w0 mb0: reads x mb0, grad m0 mb0 += gradients group0 2.00 KiB; waits 10,11; frees x mb0, grad m0 mb0
   15 communication  report: all-reduce over {0,1} 16 B; reads loss mb0, gradients group0 -> report 16 B; waits 5,14; frees loss mb0
   16 compute        update group0: reads gradients group0, report += weights group0 2.00 KiB, optimizer group0 4.00 KiB; waits 15; frees gradients group0, report
)");
}

TEST(FactorGradientsTest, AServerReadsAsExpected) {
  EXPECT_EQ(ToText(SmallProgram({.tp = 1, .sync = GradientSync::kServer}, 2), 0),
            R"(device 0: 11 instructions, stages 0
    0 copy           load labels mb0: -> labels mb0 i64[8/dp] 32 B
    1 copy           load x mb0: -> x mb0 f32[8/dp,16] 256 B
    2 compute        F seg0 mb0: LabelCount, MatMul, Relu, MatMul and 1 more; reads labels mb0, x mb0, weights group0, weights group0 -> count mb0 f32[] sum(dp) 4 B, h1 mb0 f32[8/dp,16] 256 B, saved seg0 mb0; waits 0,1; frees x mb0
    3 communication  all-reduce count mb0: over {0,1} 4 B; reads count mb0 -> count mb0 f32[] 4 B; waits 2; frees count mb0
    4 compute        F seg1 mb0: CrossEntropy; reads h1 mb0, labels mb0, count mb0 -> loss mb0 f32[] sum(dp) 4 B, saved seg1 mb0; waits 0,3; frees labels mb0, h1 mb0, count mb0
    5 compute        BW seg1 mb0: CrossEntropy; reads nothing, saved seg1 mb0 -> grad h1 mb0 f32[8/dp,16] 256 B; frees saved seg1 mb0
    6 compute        BW seg0 mb0: LabelCount, MatMul, Relu, MatMul and 1 more; reads nothing, grad h1 mb0, saved seg0 mb0 += gradients group0 2.00 KiB; frees saved seg0 mb0, grad h1 mb0
    7 communication  reduce-gradients group0: reduce over {0,1} 2.00 KiB; reads gradients group0 -> reduced group0 2.00 KiB; waits 6; frees gradients group0
    8 communication  report: all-reduce over {0,1} 16 B; reads loss mb0, reduced group0 -> report 16 B; waits 4; frees loss mb0
    9 compute        update group0: reads reduced group0, report += weights group0 2.00 KiB, optimizer group0 4.00 KiB; waits 7,8; frees reduced group0, report
   10 communication  gather-weights group0: broadcast over {0,1} 2.00 KiB; reads weights group0 += weights group0 2.00 KiB; waits 9
)");
}

// Servers take turns, and each alone has the state.
TEST(FactorGradientsTest, ServersTakeTurns) {
  Model model = SmallModel(4);
  Plan plan = SmallPlan(model, {.dp = 3, .tp = 1, .sync = GradientSync::kServer});
  plan.bucket_bytes = 1;
  Program program = Lower(model, plan);
  const StageProgram& stage = program.stages.front();
  ASSERT_EQ(stage.groups.size(), 4u);
  for (ParameterGroupId g : stage.groups.ids()) {
    EXPECT_EQ(stage.groups[g].server, g.value % 3);
    for (int64_t device = 0; device < 3; ++device) {
      Buffer state{BufferKind::kOptimizer, StageId{0}, g, -1, 0};
      EXPECT_EQ(BufferBytes(program, state, device), device == g.value % 3 ? 2 * 4 * 16 * 16 : 0);
    }
  }
  EXPECT_THAT(Verify(program), IsEmpty());
}

}  // namespace
}  // namespace heddle
