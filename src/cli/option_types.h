// What the values of options may be, for every command alike. CLI11's own checks are not used for numbers: its ranges
// let NaN pass, and its conversions clamp what does not fit, read 010 as 8 and take 0x10.
//
//   command.add_option("--ranks", ranks, "...")->transform(IntegerIn(1, 4096));
//   command.add_option("--budget", budget, "...")->transform(RealIn(0, 1e6));
//   command.add_option("--memory-limit", limit, "...")->check(AmountOfBytes());   // a string; ParseBytes reads it
//
// tests/cli_options_test.cc goes through all options of all commands and fails where a number is taken unchecked.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace heddle {

inline constexpr int64_t kMostWhole = std::numeric_limits<int64_t>::max();

// A whole number in decimal digits, least <= value <= most.
CLI::Validator IntegerIn(int64_t least, int64_t most = kMostWhole);

// A finite number, least <= value <= most.
CLI::Validator RealIn(double least, double most);
// The same, with least < value, or with value < most.
CLI::Validator RealAbove(double least, double most);
CLI::Validator RealBelow(double least, double most);

// A number and a unit that ParseBytes or ParseSeconds (quantity_args.h) takes.
CLI::Validator AmountOfBytes();
CLI::Validator LengthOfTime();

// Makes every option of every command refuse an empty value: an empty path would mean "not given". Call it once all
// commands are added.
void RefuseEmptyValues(CLI::App& app);

}  // namespace heddle
