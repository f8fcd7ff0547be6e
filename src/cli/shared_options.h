// Options that several commands have under one name: what they may be, and their words where all mean the same.
//
//   AddJsonFlag(command, args->json);
//   AddThreadsOption(command, args->threads, "of the kernels of a device");
//
// `about` says what an option means to one command. Groups of options have classes of their own: ModelArgs (commands.h),
// DegreeArgs (plan_args.h), SearchArgs (plan_search.h), ProfileArgs (profile_args.h).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "cli/option_types.h"

namespace heddle {

inline constexpr int64_t kMostSteps = int64_t{1} << 40;  // that any option counts

CLI::Option* AddJsonFlag(CLI::App& command, bool& json);

// A CLUSTER; the second form is for commands that have another where none is given.
CLI::Option* AddClusterOption(CLI::App& command, std::string& cluster);
CLI::Option* AddClusterOption(CLI::App& command, std::string& cluster, const std::string& about);

// The model of a plan file.
CLI::Option* AddPlanModelOption(CLI::App& command, std::string& model);

// What a device may use, as text (ParseBytes).
CLI::Option* AddMemoryLimitOption(CLI::App& command, std::string& limit, const std::string& about);
// Mean time between failures, as text (ParseSeconds).
CLI::Option* AddMtbfOption(CLI::App& command, std::string& mtbf, const std::string& about);

// Seconds that a search may take.
CLI::Option* AddBudgetOption(CLI::App& command, double& seconds, const std::string& about);

CLI::Option* AddDeterministicFlag(CLI::App& command, bool& deterministic);
CLI::Option* AddOverrideFlag(CLI::App& command, bool& override_settings, const std::string& about);
CLI::Option* AddCheckpointEveryOption(CLI::App& command, int64_t& steps, const std::string& about);

// Numbers of any integral type.
template <typename Number>
CLI::Option* AddThreadsOption(CLI::App& command, Number& threads, const std::string& about,
                              int64_t least = 1) {
  return command.add_option("--threads", threads, about)->transform(IntegerIn(least, 4096));
}

template <typename Number>
CLI::Option* AddSeedOption(CLI::App& command, Number& seed, const std::string& about) {
  return command.add_option("--seed", seed, about)->transform(IntegerIn(0))->capture_default_str();
}

template <typename Number>
CLI::Option* AddRanksOption(CLI::App& command, Number& ranks, const std::string& about) {
  return command.add_option("--ranks", ranks, about)->transform(IntegerIn(1, 4096));
}

// Steps to train.
template <typename Number>
CLI::Option* AddStepsOption(CLI::App& command, Number& steps, const std::string& about) {
  return command.add_option("--steps", steps, about)
      ->transform(IntegerIn(1, kMostSteps))
      ->capture_default_str();
}

}  // namespace heddle
