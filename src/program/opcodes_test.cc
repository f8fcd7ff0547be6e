#include "program/opcodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "program/testing.h"

namespace heddle {
namespace {

TEST(Opcodes, HaveANameOfTheirOwnAndAnEntryAtTheirPlace) {
  ASSERT_EQ(AllOpcodes().size(), kOpcodeCount);
  std::set<std::string_view> names;
  for (size_t i = 0; i < kOpcodeCount; ++i) {
    const OpcodeDef& def = AllOpcodes()[i];
    EXPECT_EQ(static_cast<size_t>(def.op), i) << def.name;
    EXPECT_EQ(&DefOf(def.op), &def) << def.name;
    EXPECT_TRUE(names.insert(def.name).second) << def.name;
    EXPECT_FALSE(def.category.empty()) << def.name;
    EXPECT_NE(def.check, nullptr) << def.name;
  }
}

// What gives no payload is not on the communication stream, but for messages.
TEST(Opcodes, CollectivesAreThoseThatCommunicate) {
  for (const OpcodeDef& def : AllOpcodes()) {
    bool message = def.target == TargetKind::kTransfer;
    EXPECT_EQ(def.payload != nullptr || message, def.stream == Stream::kCommunication) << def.name;
  }
}

TEST(Opcodes, AReshardCommunicatesUnlessItsStepIsLocal) {
  Program program = SmallProgram();
  size_t reshards = 0;
  for (const Instruction& at : program.runs[0].instructions) {
    EXPECT_EQ(at.stream, StreamOf(program, at));
    if (at.op != Opcode::kReshard) continue;
    ++reshards;
    bool alone = CollectiveOf(program, at, program.runs[0].devices[0]).ranks.empty();
    EXPECT_EQ(at.stream, alone ? Stream::kCompute : Stream::kCommunication);
  }
  EXPECT_GT(reshards, 0u);
}

TEST(OpcodesDeathTest, ATargetOfAnotherKindIsABug) {
  Instruction run;
  run.target = SegmentId{2};
  EXPECT_EQ(run.segment(), SegmentId{2});
  EXPECT_DEATH(run.local(), "id 2 is of kind");
}

}  // namespace
}  // namespace heddle
