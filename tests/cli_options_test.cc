// The values that the options of all commands without libtorch accept, and the errors for others.
#include "option_walk.h"

namespace heddle {
namespace {

TEST(CliOptions, NumbersAreFiniteAndInRange) { ExpectBadNumbersRefused(CoreCommands()); }

TEST(CliOptions, NoValueIsEmpty) { ExpectEmptyValuesRefused(CoreCommands()); }

TEST(CliOptions, RangesAreSaidInPlainDigits) {
  struct Case {
    std::vector<std::string> arguments;
    std::string says;
  };
  const std::vector<std::string> plan = {"plan", "gpt2", "--cluster", "local:2"};
  for (auto [more, says] : std::vector<Case>{
           {{"--tp", "0"}, "--tp: 0: expected a whole number from 1 to 1048576"},
           {{"--zero", "4"}, "--zero: 4: expected a whole number from 0 to 3"},
           {{"--budget", "nan"}, "--budget: nan: expected a number from 0 to 1000000"},
           {{"--sparsity", "1"}, "--sparsity: 1: expected a number from 0 to below 1"},
           {{"--mtbf", "12"}, "--mtbf: 12: add a unit, as in 12 h"},
           {{"--mtbf", "0 h"}, "--mtbf: 0 h: expected a time above 0, as in 12 h"},
           {{"--memory-limit", "0B"}, "--memory-limit: 0B: expected at least 1 B"},
           {{"--memory-limit", "9999PiB"}, "--memory-limit: 9999PiB: expected at most 1024 PiB"},
           {{"--shares", "3,-1"}, "--shares: -1: expected a whole number from 1 to 1073741824"},
           {{"--dp", "010"}, ""},  // decimal 10, not octal 8
       }) {
    std::vector<std::string> arguments = plan;
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(MistakeIn(CoreCommands(), arguments), says);
  }
}

TEST(CliOptions, LeadingZerosAreDecimal) {
  CLI::App app;
  int64_t value = 0;
  app.add_option("--n", value)->transform(IntegerIn(0, 100));
  app.parse(std::vector<std::string>{"010", "--n"});
  EXPECT_EQ(value, 10);
}

}  // namespace
}  // namespace heddle
