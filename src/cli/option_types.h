// The types of option values, shared by all commands. CLI11's own checks are not used for numbers: its ranges accept
// NaN, and its conversions clamp numbers that do not fit, read 010 as 8 and accept 0x10.
//
//   command.add_option("--ranks", ranks, "...")->transform(IntegerIn(1, 4096));
//   command.add_option("--budget", budget, "...")->transform(RealIn(0, 1e6));
//   command.add_option("--memory-limit", limit, "...")->check(AmountOfBytes());   // a string; ParseBytes reads it
//
// tests/cli_options_test.cc goes through all options of all commands and fails if a number is not checked.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace heddle {

inline constexpr int64_t kMostWhole = std::numeric_limits<int64_t>::max();

// A whole number in decimal digits with least <= value <= most.
CLI::Validator IntegerIn(int64_t least, int64_t most = kMostWhole);

// A finite number with least <= value <= most.
CLI::Validator RealIn(double least, double most);
// The same with least < value, or with value < most.
CLI::Validator RealAbove(double least, double most);
CLI::Validator RealBelow(double least, double most);

// A number with a unit, as ParseBytes or ParseSeconds (quantity_args.h) reads it.
CLI::Validator AmountOfBytes();
CLI::Validator LengthOfTime();

// Makes every option of every command reject an empty value, because an empty path means "not given". Call it after all
// commands are added.
void RefuseEmptyValues(CLI::App& app);

}  // namespace heddle
