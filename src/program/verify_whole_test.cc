// Verify finds nothing wrong with whole programs as lowering makes them, small and large.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/instruction_testing.h"
#include "program/testing.h"
#include "program/verify.h"

namespace heddle {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(VerifyWholeProgramTest, EverySchedulePolicyAndLevelIsSound) {
  for (const ScheduleDef& schedule : AllSchedules()) {
    for (size_t stages : {size_t{1}, size_t{2}}) {
      for (int zero = 0; zero <= 3; ++zero) {
        for (const RecomputeDef& recompute : kRecomputePolicies) {
          SmallPlanOptions options{.stages = stages,
                                   .microbatches = 4,
                                   .schedule = std::string(schedule.name),
                                   .zero = zero,
                                   .recompute = recompute.policy};
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

// The devices of the stages alternate: every member of a group sees the same group.
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

// An instruction that frees what another stream reads waits for that stream.
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
