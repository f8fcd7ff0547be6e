// The option values that commands with libtorch accept. Only parses the command lines.
#include "../option_walk.h"

namespace heddle {
namespace {

const std::vector<AddCommand> kTorchCommands = {AddTrain, AddCalibrate, AddLearn, AddPrune};

TEST(TorchOptions, NumbersAreFiniteAndInRange) { ExpectBadNumbersRefused(kTorchCommands); }

TEST(TorchOptions, NoValueIsEmpty) { ExpectEmptyValuesRefused(kTorchCommands); }

TEST(TorchOptions, RangesAreSaidInPlainDigits) {
  EXPECT_EQ(MistakeIn(kTorchCommands, {"train", "x", "--seed", "-1"}),
            "--seed: -1: expected a whole number from 0 to 9223372036854775807");
  EXPECT_EQ(MistakeIn(kTorchCommands, {"train", "x", "--betas", "0.9,nan"}),
            "--betas: nan: expected a number from 0 to below 1");
  EXPECT_EQ(MistakeIn(kTorchCommands, {"train", "x", "--betas", "0.9,0.999", "--seed", "7"}), "");
}

}  // namespace
}  // namespace heddle
