// Options that several commands have under the same name: their types and, if the meaning is the same, their help
// texts.
//
//   AddJsonFlag(command, args->json);
//   AddThreadsOption(command, args->threads, "of the kernels of a device");
//
// `about` describes the meaning of the option for one command. Groups of options have their own classes: ModelArgs
// (commands.h), DegreeArgs (plan_args.h), SearchArgs (plan_search.h), ProfileArgs (profile_args.h).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "cli/option_types.h"

namespace heddle {

inline constexpr int64_t kMostSteps = int64_t{1} << 40;  // for all options that count steps

CLI::Option* AddJsonFlag(CLI::App& command, bool& json);

// --cluster. The second form is for commands with a default cluster.
CLI::Option* AddClusterOption(CLI::App& command, std::string& cluster);
CLI::Option* AddClusterOption(CLI::App& command, std::string& cluster, const std::string& about);

// --model: the model of a plan file.
CLI::Option* AddPlanModelOption(CLI::App& command, std::string& model);

// --memory-limit: the memory that a device may use, as text for ParseBytes.
CLI::Option* AddMemoryLimitOption(CLI::App& command, std::string& limit, const std::string& about);
// --mtbf: the mean time between failures, as text for ParseSeconds.
CLI::Option* AddMtbfOption(CLI::App& command, std::string& mtbf, const std::string& about);

// --budget: the seconds that a search may take.
CLI::Option* AddBudgetOption(CLI::App& command, double& seconds, const std::string& about);

CLI::Option* AddDeterministicFlag(CLI::App& command, bool& deterministic);
CLI::Option* AddOverrideFlag(CLI::App& command, bool& override_settings, const std::string& about);
CLI::Option* AddCheckpointEveryOption(CLI::App& command, int64_t& steps, const std::string& about);

// --threads, for any integral type.
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

// --steps: the number of training steps.
template <typename Number>
CLI::Option* AddStepsOption(CLI::App& command, Number& steps, const std::string& about) {
  return command.add_option("--steps", steps, about)
      ->transform(IntegerIn(1, kMostSteps))
      ->capture_default_str();
}

}  // namespace heddle
