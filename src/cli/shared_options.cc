#include "cli/shared_options.h"

namespace heddle {

CLI::Option* AddJsonFlag(CLI::App& command, bool& json) {
  return command.add_flag("--json", json, "print one JSON object on standard output");
}

CLI::Option* AddClusterOption(CLI::App& command, std::string& cluster) {
  return AddClusterOption(command, cluster, "a YAML file or a preset (see 'heddle cluster')")
      ->required();
}

CLI::Option* AddClusterOption(CLI::App& command, std::string& cluster, const std::string& about) {
  return command.add_option("--cluster", cluster, about);
}

CLI::Option* AddPlanModelOption(CLI::App& command, std::string& model) {
  return command.add_option("--model", model,
                            "the model to use instead of the one that the plan names");
}

CLI::Option* AddMemoryLimitOption(CLI::App& command, std::string& limit, const std::string& about) {
  return command.add_option("--memory-limit", limit, about)->check(AmountOfBytes());
}

CLI::Option* AddMtbfOption(CLI::App& command, std::string& mtbf, const std::string& about) {
  return command.add_option("--mtbf", mtbf, "mean time between failures, " + about)
      ->check(LengthOfTime());
}

CLI::Option* AddBudgetOption(CLI::App& command, double& seconds, const std::string& about) {
  return command.add_option("--budget", seconds, about)
      ->transform(RealIn(0, 1e6))
      ->capture_default_str();
}

CLI::Option* AddDeterministicFlag(CLI::App& command, bool& deterministic) {
  return command.add_flag("--deterministic", deterministic,
                          "on CUDA: bitwise equal results in every run of the same plan, at some "
                          "cost; the CPU always gives them");
}

CLI::Option* AddOverrideFlag(CLI::App& command, bool& override_settings, const std::string& about) {
  return command.add_flag("--override", override_settings, about);
}

CLI::Option* AddCheckpointEveryOption(CLI::App& command, int64_t& steps, const std::string& about) {
  return command.add_option("--checkpoint-every", steps, "steps between checkpoints" + about)
      ->transform(IntegerIn(1, kMostSteps));
}

}  // namespace heddle
