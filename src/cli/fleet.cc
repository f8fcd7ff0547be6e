// heddle fleet: many models on few devices.
#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/fleet_prepare.h"
#include "cli/option_types.h"
#include "cluster/yaml_tree.h"

namespace heddle {
namespace {

RealFleet run_for_real = nullptr;

void RunFleet(const FleetArgs& args) {
  if (!args.simulate) {
    if (run_for_real == nullptr) BecomeTorch();  // comes back only where there is no such program
    if (run_for_real == nullptr)
      ThrowInput("fleet: this heddle was built without libtorch: use --simulate, or build with it");
    return run_for_real(args);
  }
  const PolicyDef& policy = PolicyOf(args);
  FleetSpec spec = JobsFromYaml(ReadFile(args.jobs, kMaxYamlBytes), args.jobs);
  FleetMachine machine = MachineOf(args, spec);
  FleetReport report;
  {
    Phases phases("fleet", 2);
    phases.Begin("pricing models");
    PreparedFleet fleet(args, spec, machine, phases);
    phases.Begin("simulating");
    report = fleet.Report(policy);
  }
  if (args.json) {
    PrintJson(ToJson(report));
  } else {
    fmt::print("{}", Screen(report));
  }
}

}  // namespace

void UseRealFleet(RealFleet run) { run_for_real = run; }

void AddFleet(CLI::App& app) {
  CLI::App* command = app.add_subcommand("fleet", "many models on few devices");
  auto args = std::make_shared<FleetArgs>();
  command->add_option("JOBS", args->jobs, "a YAML file of jobs (docs/fleet.md)")->required();
  command->add_flag("--simulate", args->simulate,
                    "only predict: makespan, bound, who runs what when");
  command->add_option("--cluster", args->cluster, "what to run on, if not what the file says");
  std::string policies;
  for (const PolicyDef& policy : AllPolicies()) {
    policies += fmt::format("{}{}", policies.empty() ? "" : ", ", policy.name);
  }
  command->add_option("--policy", args->policy, "which job a free device takes: " + policies)
      ->capture_default_str();
  command
      ->add_option("--reserve", args->reserve,
                   "part of a device's memory that is left to contexts and libraries")
      ->transform(RealIn(0, 0.9))
      ->capture_default_str();
  // Not a flag of an optional: that would be given as false where it is not.
  command->add_flag_callback(
      "--several", [args] { args->several = true; },
      "give jobs several devices where that pays, by plans for 2, 4, ... of them (default: where "
      "there are fewer jobs than devices)");
  command->add_flag_callback(
      "--no-several", [args] { args->several = false; }, "a job has one device at a time");
  command
      ->add_option("--switch", args->switch_seconds,
                   "seconds that a job loses when its devices change")
      ->transform(RealIn(0, 1e6))
      ->capture_default_str();
  command->add_flag("--no-double-buffering", args->no_double_buffering,
                    "fetch a shard when the one before has ended");
  command
      ->add_option("--memory-limit", args->memory_limit,
                   "memory of a device that shards may use, such as 16GB")
      ->check(AmountOfBytes());
  command->add_option("--device", args->device, "of a real run: cpu (threads) or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--checkpoint", args->checkpoint,
                      "folder with a checkpoint of every job: the same command goes on from it");
  command->add_option("--checkpoint-every", args->every, "steps from one checkpoint to the next")
      ->transform(IntegerIn(1, int64_t{1} << 40));
  command->add_option("--spill", args->spill,
                      "folder for files that are mapped, where host memory is too small");
  command->add_option("--threads", args->threads, "of the kernels of a device")
      ->transform(IntegerIn(1, 4096));
  command->add_flag("--json", args->json, "print one JSON object on standard output");
  command->footer(
      "Models are cut into shards that fit a device beside the next one's; any device takes the "
      "next shard of\nany job. What --simulate shows is simulated.\n"
      "\n"
      "Examples:\n"
      "  heddle fleet jobs.yaml --simulate --cluster dgx-v100:1\n"
      "  heddle fleet jobs.yaml --cluster local:2 --memory-limit 500MB --checkpoint runs");
  command->callback([args] { RunFleet(*args); });
}

}  // namespace heddle
