#include "sim/memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "program/testing.h"

namespace heddle {
namespace {

constexpr int64_t kRows = 8, kWidth = 16, kValue = 4 * kRows * kWidth;  // f32[8,16]
constexpr int64_t kLabels = 8 * kRows, kWeight = 4 * kWidth * kWidth;

IdVector<SegmentId, SegmentMemory> SegmentsOf(const Program& program,
                                              const MemoryHabits& habits = {}) {
  const StageProgram& stage = program.stages.front();
  return MemoryOfSegments(program, stage, PositionIn(stage, 0), /*split=*/false, habits);
}

int64_t MadeAndKept(const HalfMemory& half) {
  int64_t bytes = 0;
  for (StorageRef ref : half.kept) bytes += ref < 0 ? 0 : half.made[static_cast<size_t>(ref)].bytes;
  return bytes;
}

// The peak of what a half has made and not dropped.
int64_t Most(const HalfMemory& half) {
  int64_t live = 0, most = 0;
  for (const HalfEvent& event : half.events) {
    if (event.kind == HalfEvent::Kind::kRelease) continue;
    int64_t bytes = half.made[static_cast<size_t>(event.index)].bytes;
    live += event.kind == HalfEvent::Kind::kMake ? bytes : -bytes;
    most = std::max(most, live);
  }
  return most;
}

// On one device: count, m0, h0 (kept), m1, h1 (kept), loss with the logarithms (kept).
TEST(Kept, FollowsTheRules) {
  Program program = SmallProgram({.dp = 1, .tp = 1}, 2);
  IdVector<SegmentId, SegmentMemory> segments = SegmentsOf(program);
  ASSERT_EQ(segments.size(), 1u);
  const SegmentMemory& at = segments.front();
  EXPECT_EQ(MadeAndKept(at.keeping), 3 * kValue);
  // x, the labels and the weights exist outside of the segment.
  EXPECT_EQ(std::count_if(at.keeping.kept.begin(), at.keeping.kept.end(),
                          [](StorageRef ref) { return ref < 0; }),
            2);
  EXPECT_TRUE(at.forward.kept.empty());
  // Nothing is kept: two values at a time, and the count.
  EXPECT_EQ(Most(at.forward), 2 * kValue + 4);
  // While m1 exists: h0, m1, h1 and the count; then h0, h1, logarithms, the count and the loss.
  EXPECT_EQ(Most(at.keeping), 3 * kValue + 8);
}

// The logits, h1, are kept anyway; in addition the log-sum-exp of every row.
TEST(Kept, AFusedLossMakesNoCopyOfTheLogits) {
  Program program = SmallProgram({.dp = 1, .tp = 1}, 2);
  const SegmentMemory at = SegmentsOf(program, {.fused_loss = true}).front();
  EXPECT_EQ(MadeAndKept(at.keeping), 2 * kValue + 4 * kRows);
}

TEST(Kept, BackwardLetsGoAsItGoes) {
  Program program = SmallProgram({.dp = 1, .tp = 1}, 2);
  const SegmentMemory at = SegmentsOf(program).front();
  // At the end of backward both weight gradients exist; the peak is when the larger one exists with two gradients of
  // values.
  EXPECT_EQ(Most(at.backward), 2 * kWeight + kValue);
  EXPECT_EQ(
      std::count_if(at.backward.events.begin(), at.backward.events.end(),
                    [](const HalfEvent& event) { return event.kind == HalfEvent::Kind::kRelease; }),
      static_cast<std::ptrdiff_t>(at.keeping.kept.size()));
}

TEST(Memory, IsThatOfOneDeviceByHand) {
  Program program = SmallProgram({.dp = 1, .tp = 1}, 2);
  MemoryTimeline timeline = Replay(MemoryModel(program), 0, {.kinds = true});
  EXPECT_EQ(timeline.held, (MemoryKinds{2 * kWeight, 0, 2 * 2 * kWeight, 0, 0}));
  EXPECT_EQ(timeline.left, timeline.held);
  const std::vector<Instruction>& list = program.runs[0].instructions;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].op != Opcode::kRun || list[i].half != Half::kF) continue;
    // x, labels and the loss, besides what is kept.
    EXPECT_EQ(timeline.kinds[i].activations, 4 * kValue + kLabels + 4);
  }
  EXPECT_EQ(timeline.peak_kinds.gradients, 2 * kWeight);
}

// Weight gradients are separate tensors and are copied into a flat one before the update, which needs no other memory.
TEST(Memory, AnUpdateOfFlatGradients) {
  Program program = SmallProgram({.dp = 1, .tp = 1}, 2);
  MemoryTimeline timeline =
      Replay(MemoryModel(program, {.eager = true, .fused_update = true}), 0, {.kinds = true});
  EXPECT_EQ(timeline.left, timeline.held);
  const std::vector<Instruction>& list = program.runs[0].instructions;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].op == Opcode::kReport) {
      EXPECT_EQ(timeline.kinds[i].gradients, 2 * kWeight);
    }
    if (list[i].op == Opcode::kUpdate) {
      EXPECT_LT(timeline.most_kinds[i].buffers, kWeight);
    }
  }
}

// Four devices: values and weights are split as the plan says.
TEST(Memory, IsSplitWithThePlan) {
  Program program = SmallProgram({.dp = 2, .tp = 2}, 2);
  MemoryTimeline timeline = Replay(MemoryModel(program), 3);
  EXPECT_EQ(timeline.held, (MemoryKinds{kWeight, 0, 2 * kWeight, 0, 0}));
  EXPECT_EQ(timeline.left, timeline.held);
}

}  // namespace
}  // namespace heddle
