#include "program/text.h"

#include <gtest/gtest.h>

#include "program/testing.h"

namespace heddle {
namespace {

// When lowering changes what it makes, these change with it: read them.
TEST(ProgramTextTest, ReadsAsExpected) {
  EXPECT_EQ(ToText(SmallProgram({}, 2), 1), R"(device 1: 11 instructions, stages 0
    0 copy           load labels mb0: -> labels mb0 i64[8/dp] 32 B
    1 copy           load x mb0: -> x mb0 f32[8/dp,16] 256 B
    2 compute        F seg0 mb0: LabelCount, MatMul, Relu, MatMul; reads labels mb0, x mb0, weights group0, weights group0 -> count mb0 f32[] sum(dp) 4 B, m1 mb0 f32[8/dp,16] sum(tp) 256 B, saved seg0 mb0; waits 0,1; frees x mb0
    3 communication  all-reduce m1 mb0: over {0,1} 256 B; reads m1 mb0 -> m1 mb0 f32[8/dp,16] 256 B; waits 2; frees m1 mb0
    4 communication  all-reduce count mb0: over {1,3} 4 B; reads count mb0 -> count mb0 f32[] 4 B; waits 2; frees count mb0
    5 compute        F seg1 mb0: Relu, CrossEntropy; reads m1 mb0, labels mb0, count mb0 -> loss mb0 f32[] sum(dp) 4 B, saved seg1 mb0; waits 0,3,4; frees labels mb0, m1 mb0, count mb0
    6 compute        BW seg1 mb0: Relu, CrossEntropy; reads nothing, saved seg1 mb0 -> grad m1 mb0 f32[8/dp,16] 256 B; frees saved seg1 mb0
    7 compute        BW seg0 mb0: LabelCount, MatMul, Relu, MatMul; reads nothing, grad m1 mb0, saved seg0 mb0 += gradients group0 1.00 KiB; frees saved seg0 mb0, grad m1 mb0
    8 communication  reduce-gradients group0: all-reduce over {1,3} 1.00 KiB; reads gradients group0 -> reduced group0 1.00 KiB; waits 7; frees gradients group0
    9 communication  report: all-reduce over {0,1,2,3} 16 B; reads loss mb0, reduced group0 -> report 16 B; waits 5; frees loss mb0
   10 compute        update group0: reads reduced group0, report += weights group0 1.00 KiB, optimizer group0 2.00 KiB; waits 8,9; frees reduced group0, report
)");
}

TEST(ProgramTextTest, AStageOfAPipeline) {
  SmallPlanOptions options{.dp = 1, .tp = 1, .stages = 2, .recompute = RecomputePolicy::kFull};
  EXPECT_EQ(ToText(SmallProgram(options, 4), 0), R"(device 0: 13 instructions, stages 0
    0 communication  recv grad m2 mb0: from {1} 512 B; -> grad m2 mb0 f32[8,16] 512 B
    1 copy           load x mb0: -> x mb0 f32[8,16] 512 B
    2 compute        F seg0.0 mb0: MatMul; reads x mb0, weights group0.0 -> m0 mb0 f32[8,16] 512 B, saved seg0.0 mb0; waits 1; frees x mb0
    3 compute        F seg0.1 mb0: Relu, MatMul; reads m0 mb0, weights group0.0 -> m1 mb0 f32[8,16] 512 B
    4 compute        F seg0.2 mb0: Relu, MatMul; reads m1 mb0, weights group0.0 -> m2 mb0 f32[8,16] 512 B
    5 communication  send m2 mb0: to {1} 512 B; reads m2 mb0; waits 4; frees m2 mb0
    6 compute        recompute seg0.2 mb0: Relu, MatMul; reads m1 mb0, weights group0.0 -> m2 mb0 again f32[8,16] 512 B, saved seg0.2 mb0; frees m1 mb0, m2 mb0 again
    7 compute        BW seg0.2 mb0: Relu, MatMul; reads grad m2 mb0, saved seg0.2 mb0 -> grad m1 mb0 f32[8,16] 512 B += gradients group0.0 3.00 KiB; waits 0; frees grad m2 mb0, saved seg0.2 mb0
    8 compute        recompute seg0.1 mb0: Relu, MatMul; reads m0 mb0, weights group0.0 -> m1 mb0 again f32[8,16] 512 B, saved seg0.1 mb0; frees m0 mb0, m1 mb0 again
    9 compute        BW seg0.1 mb0: Relu, MatMul; reads grad m1 mb0, saved seg0.1 mb0 -> grad m0 mb0 f32[8,16] 512 B += gradients group0.0 3.00 KiB; frees grad m1 mb0, saved seg0.1 mb0
   10 compute        BW seg0.0 mb0: MatMul; reads grad m0 mb0, saved seg0.0 mb0 += gradients group0.0 3.00 KiB; frees saved seg0.0 mb0, grad m0 mb0
   11 communication  report: all-reduce over {0,1} 16 B; reads gradients group0.0 -> report 16 B; waits 10
   12 compute        update group0.0: reads gradients group0.0, report += weights group0.0 3.00 KiB, optimizer group0.0 6.00 KiB; waits 11; frees gradients group0.0, report
)");
}

TEST(ProgramTextTest, WeightsThatAreSplit) {
  EXPECT_EQ(ToText(SmallProgram({.tp = 1, .zero = 3}, 4), 0), R"(device 0: 29 instructions, stages 0
    0 copy           load labels mb0: -> labels mb0 i64[8/dp] 32 B
    1 copy           load x mb0: -> x mb0 f32[8/dp,16] 256 B
    2 compute        F seg0 mb0: LabelCount, MatMul; reads labels mb0, x mb0, weights group3 -> count mb0 f32[] sum(dp) 4 B, m0 mb0 f32[8/dp,16] 256 B, saved seg0 mb0; waits 0,1; frees x mb0
    3 communication  gather-weights group2: all-gather over {0,1} 512 B; reads weights group2 -> gathered group2 #0 1.00 KiB
    4 communication  gather-weights group1: all-gather over {0,1} 512 B; reads weights group1 -> gathered group1 #1 1.00 KiB
    5 compute        F seg1 mb0: Relu, MatMul; reads m0 mb0, gathered group2 #0 -> m1 mb0 f32[8/dp,16] 256 B, saved seg1 mb0; waits 3; frees m0 mb0, gathered group2 #0
    6 communication  gather-weights group0: all-gather over {0,1} 512 B; reads weights group0 -> gathered group0 #2 1.00 KiB
    7 compute        F seg2 mb0: Relu, MatMul; reads m1 mb0, gathered group1 #1 -> m2 mb0 f32[8/dp,16] 256 B, saved seg2 mb0; waits 4; frees gathered group1 #1, m1 mb0
    8 compute        F seg3 mb0: Relu, MatMul; reads m2 mb0, gathered group0 #2 -> m3 mb0 f32[8/dp,16] 256 B, saved seg3 mb0; waits 6; frees gathered group0 #2, m2 mb0
    9 communication  all-reduce count mb0: over {0,1} 4 B; reads count mb0 -> count mb0 f32[] 4 B; waits 2; frees count mb0
   10 compute        F seg4 mb0: Relu, CrossEntropy; reads m3 mb0, labels mb0, count mb0 -> loss mb0 f32[] sum(dp) 4 B, saved seg4 mb0; waits 0,9; frees labels mb0, m3 mb0, count mb0
   11 compute        BW seg4 mb0: Relu, CrossEntropy; reads nothing, saved seg4 mb0 -> grad m3 mb0 f32[8/dp,16] 256 B; frees saved seg4 mb0
   12 communication  gather-weights group0: all-gather over {0,1} 512 B; reads weights group0 -> gathered group0 #3 1.00 KiB
   13 communication  gather-weights group1: all-gather over {0,1} 512 B; reads weights group1 -> gathered group1 #4 1.00 KiB
   14 compute        BW seg3 mb0: Relu, MatMul; reads grad m3 mb0, saved seg3 mb0, gathered group0 #3 -> grad m2 mb0 f32[8/dp,16] 256 B += gradients group0 mb0 1.00 KiB; waits 12; frees saved seg3 mb0, grad m3 mb0, gathered group0 #3
   15 communication  gather-weights group2: all-gather over {0,1} 512 B; reads weights group2 -> gathered group2 #5 1.00 KiB
   16 communication  reduce-gradients group0 mb0: reduce-scatter over {0,1} 1.00 KiB; reads gradients group0 mb0 += reduced group0 512 B; waits 14; frees gradients group0 mb0
   17 compute        BW seg2 mb0: Relu, MatMul; reads grad m2 mb0, saved seg2 mb0, gathered group1 #4 -> grad m1 mb0 f32[8/dp,16] 256 B += gradients group1 mb0 1.00 KiB; waits 13; frees saved seg2 mb0, gathered group1 #4, grad m2 mb0
   18 communication  reduce-gradients group1 mb0: reduce-scatter over {0,1} 1.00 KiB; reads gradients group1 mb0 += reduced group1 512 B; waits 17; frees gradients group1 mb0
   19 compute        BW seg1 mb0: Relu, MatMul; reads grad m1 mb0, saved seg1 mb0, gathered group2 #5 -> grad m0 mb0 f32[8/dp,16] 256 B += gradients group2 mb0 1.00 KiB; waits 15; frees saved seg1 mb0, gathered group2 #5, grad m1 mb0
   20 communication  reduce-gradients group2 mb0: reduce-scatter over {0,1} 1.00 KiB; reads gradients group2 mb0 += reduced group2 512 B; waits 19; frees gradients group2 mb0
   21 compute        BW seg0 mb0: LabelCount, MatMul; reads nothing, grad m0 mb0, saved seg0 mb0 += gradients group3 mb0 1.00 KiB; frees saved seg0 mb0, grad m0 mb0
   22 communication  reduce-gradients group3 mb0: reduce-scatter over {0,1} 1.00 KiB; reads gradients group3 mb0 += reduced group3 512 B; waits 21; frees gradients group3 mb0
   23 communication  report: all-reduce over {0,1} 16 B; reads loss mb0, reduced group0, reduced group1, reduced group2, reduced group3 -> report 16 B; waits 10; frees loss mb0
   24 compute        update group0: reads reduced group0, report += weights group0 512 B, optimizer group0 1.00 KiB; waits 16,23; frees reduced group0
   25 compute        update group1: reads reduced group1, report += weights group1 512 B, optimizer group1 1.00 KiB; waits 18,23; frees reduced group1
   26 compute        update group2: reads reduced group2, report += weights group2 512 B, optimizer group2 1.00 KiB; waits 20,23; frees reduced group2
   27 compute        update group3: reads reduced group3, report += weights group3 1.00 KiB, optimizer group3 1.00 KiB; waits 22,23; frees reduced group3, report
   28 communication  gather-weights group3: all-gather over {0,1} 512 B; reads weights group3 += weights group3 1.00 KiB; waits 27
)");
}

TEST(ProgramTextTest, BytesOfBuffers) {
  Program program = SmallProgram({.zero = 1}, 2);
  program.precision = {DType::kBF16, DType::kF32, DType::kF32, DType::kF32};
  // Two parameters of 16 x 16, split over tp 2 and, their state, over dp 2.
  auto bytes = [&](BufferKind kind) {
    return BufferBytes(program, {kind, StageId{0}, ParameterGroupId{0}, -1, 0}, 0);
  };
  EXPECT_EQ(bytes(BufferKind::kWeights), 256 * 2);
  EXPECT_EQ(bytes(BufferKind::kWeightGradients), 256 * 4);
  EXPECT_EQ(bytes(BufferKind::kReduced), 128 * 4);
  EXPECT_EQ(bytes(BufferKind::kOptimizer), 128 * 12);
  EXPECT_EQ(bytes(BufferKind::kReport), 16);
  EXPECT_EQ(bytes(BufferKind::kSaved), 0);

  program.precision = {DType::kF16, DType::kF16, DType::kF32, DType::kF32};
  EXPECT_EQ(bytes(BufferKind::kWeights), 256 * 2);
  EXPECT_EQ(bytes(BufferKind::kWeightGradients), 256 * 2);
  EXPECT_EQ(bytes(BufferKind::kReduced), 128 * 2);
  EXPECT_EQ(bytes(BufferKind::kOptimizer), 128 * 12);
}

}  // namespace
}  // namespace heddle
