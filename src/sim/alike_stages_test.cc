// What is computed once for a group of alike stages equals what is computed for each stage alone.
#include "sim/alike_stages.h"

#include <gtest/gtest.h>

#include "cluster/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "sim/memory.h"
#include "sim/sim_test_models.h"

namespace heddle {
namespace {

// Eight layers on four devices with two chunks each.
struct Made {
  Model model = Analyse(Layers(8, 16));
  Plan plan =
      ExpertPlan(model, LoadCluster("dgx-a100:1"),
                 {.dp = 2, .pp = 4, .microbatches = 4, .chunks = 2, .schedule = "interleaved"});
  Program program = Lower(model, plan);
};

int64_t BytesOf(const HalfMemory& half) {
  int64_t bytes = 0;
  for (const MadeStorage& made : half.made) bytes += made.bytes;
  return bytes;
}

void ExpectEqual(const StageMemory& a, const StageMemory& b) {
  EXPECT_EQ(a.locals, b.locals);
  EXPECT_EQ(a.reshards, b.reshards);
  EXPECT_TRUE(a.same == b.same);
  ASSERT_EQ(a.groups.size(), b.groups.size());
  for (ParameterGroupId g : a.groups.ids()) {
    EXPECT_EQ(a.groups[g].weights, b.groups[g].weights);
    EXPECT_EQ(a.groups[g].gradients, b.groups[g].gradients);
    EXPECT_EQ(a.groups[g].optimizer, b.groups[g].optimizer);
  }
  ASSERT_EQ(a.segments.size(), b.segments.size());
  for (SegmentId s : a.segments.ids()) {
    EXPECT_EQ(BytesOf(a.segments[s].forward), BytesOf(b.segments[s].forward));
    EXPECT_EQ(a.segments[s].keeping.kept, b.segments[s].keeping.kept);
    EXPECT_EQ(BytesOf(a.segments[s].backward), BytesOf(b.segments[s].backward));
  }
}

TEST(AlikeStages, LayersOfOneKindAreAlike) {
  Made at;
  ASSERT_EQ(at.program.stages.size(), 8u);
  const IdVector<StageId, StageProgram>& stages = at.program.stages;
  EXPECT_TRUE(AreAlike(at.program, stages[StageId{2}], stages[StageId{3}]));
  // The second stage has the loss.
  EXPECT_FALSE(AreAlike(at.program, stages[StageId{2}], stages[StageId{7}]));
}

TEST(AlikeStages, WhatDiffersIsSeen) {
  Made at;
  const StageProgram& one = at.program.stages[StageId{2}];
  auto differs = [&](auto change) {
    StageProgram other = at.program.stages[StageId{3}];
    change(other);
    return !AreAlike(at.program, one, other);
  };
  EXPECT_FALSE(differs([](StageProgram&) {}));
  EXPECT_TRUE(differs([](StageProgram& s) { s.mesh.axes[0].size = 3; }));
  EXPECT_TRUE(differs([](StageProgram& s) { s.segments.back().has_backward ^= true; }));
  EXPECT_TRUE(differs([](StageProgram& s) { s.segments.back().inputs.back().again ^= true; }));
  EXPECT_TRUE(differs([](StageProgram& s) { s.locals.back().dtype = DType::kF64; }));
  EXPECT_TRUE(differs([](StageProgram& s) { s.groups.back().zero_axes ^= 1; }));
  EXPECT_TRUE(differs([](StageProgram& s) { s.groups.back().slots.back().kept = {1}; }));
  EXPECT_TRUE(differs([](StageProgram& s) {
    s.strategies[s.segments.back().nodes.back().index()] = {kReplicate, kReplicate, kReplicate};
  }));
}

TEST(AlikeStages, MemoryIsThatOfEachStage) {
  Made at;
  MemoryModel shared(at.program);
  for (const DeviceProgram& run : at.program.runs) {
    for (int64_t device : run.devices) {
      for (StageId s : run.stages)
        ExpectEqual(shared.Of(s, device), MemoryModel(at.program).Of(s, device));
      for (const Instruction& instruction : run.instructions) {
        if (instruction.op != Opcode::kSend && instruction.op != Opcode::kRecv) continue;
        EXPECT_EQ(shared.MessageBytes(instruction, device),
                  MemoryModel(at.program).MessageBytes(instruction, device));
      }
    }
  }
}

}  // namespace
}  // namespace heddle
