// heddle fleet: trains many models on few devices.
#include "report/fleet.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/fleet_args.h"
#include "cli/option_types.h"
#include "cli/plan_args.h"
#include "cli/quantity_args.h"
#include "cli/shared_options.h"
#include "cluster/yaml_tree.h"
#include "frontend/load.h"
#include "ops/rebatch.h"

namespace heddle {
namespace {

RealFleet run_for_real = nullptr;

void RunFleet(const FleetArgs& given) {
  FleetArgs args = given;
  args.options.double_buffering = !args.no_double_buffering;
  if (!args.memory_limit.empty())
    args.options.memory_limit = ParseBytes("--memory-limit", args.memory_limit);
  if (!args.simulate) {
    if (run_for_real == nullptr) BecomeTorch();  // returns only if there is no such program
    if (run_for_real == nullptr)
      ThrowInput(
          "fleet: this heddle was built without libtorch: use --simulate, or build with libtorch");
    return run_for_real(args);
  }
  const PolicyDef& policy = PolicyOf(args);
  FleetSpec spec = ReadJobs(args);
  FleetMachine machine = MachineOf(args.options, spec);
  FleetReport report;
  {
    Phases phases("fleet", 2);
    phases.Begin("pricing models");
    PreparedFleet fleet = PrepareFleet(args.options, spec, machine, phases);
    phases.Begin("simulating");
    report = ReportOf(fleet, policy);
  }
  if (args.json) {
    PrintJson(ToJson(report));
  } else {
    fmt::print("{}", Screen(report));
  }
}

std::string PolicyNames() {
  std::string names;
  for (const PolicyDef& policy : AllPolicies()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", policy.name);
  }
  return names;
}

}  // namespace

const PolicyDef& PolicyOf(const FleetArgs& args) {
  const PolicyDef* policy = FindPolicy(args.policy);
  if (policy != nullptr) return *policy;
  std::vector<std::string_view> names;
  for (const PolicyDef& at : AllPolicies()) names.push_back(at.name);
  ThrowInput("--policy {}: {}", args.policy, DidYouMean(args.policy, names));
}

FleetSpec ReadJobs(const FleetArgs& args) {
  return JobsFromYaml(ReadFile(args.options.jobs, kMaxYamlBytes), args.options.jobs);
}

PreparedFleet PrepareFleet(const FleetOptions& options, const FleetSpec& spec,
                           const FleetMachine& machine, Phases& phases) {
  auto load = [&](const JobSpec& job) {
    try {
      Graph graph = LoadModel(job.model);
      return AnalyseToTrain(job.batch > 0 ? Rebatch(graph, job.batch) : std::move(graph),
                            job.model);
    } catch (const InputError& error) {
      ThrowInput("{}:{}: {}: {}", options.jobs, job.line, job.name, error.what());
    }
  };
  return {options, spec, machine, load, [&](const std::string& what) { phases.Rename(what); }};
}

void UseRealFleet(RealFleet run) { run_for_real = run; }

void AddFleet(CLI::App& app) {
  CLI::App* command = app.add_subcommand("fleet", "train many models on few devices");
  auto args = std::make_shared<FleetArgs>();
  command->add_option("JOBS", args->options.jobs, "a YAML file of jobs (docs/fleet.md)")
      ->required();
  command->add_flag("--simulate", args->simulate,
                    "only predict the makespan, its lower bound and a timeline");
  AddClusterOption(*command, args->options.cluster,
                   "the devices (default: the cluster of the file)");
  command
      ->add_option("--policy", args->policy,
                   "how a free device chooses its next job: " + PolicyNames())
      ->capture_default_str();
  command
      ->add_option("--reserve", args->options.reserve,
                   "fraction of device memory reserved for contexts and libraries")
      ->transform(RealIn(0, 0.9))
      ->capture_default_str();
  // A flag for std::optional<bool> would set it to false if the flag is not given.
  command->add_flag_callback(
      "--several", [args] { args->options.several = true; },
      "run jobs on 2, 4, ... devices each if that is faster (default: only if there are fewer jobs "
      "than devices)");
  command->add_flag_callback(
      "--no-several", [args] { args->options.several = false; },
      "run every job on one device at a time");
  command
      ->add_option("--switch", args->options.switch_seconds,
                   "seconds that a job loses when it moves to other devices")
      ->transform(RealIn(0, 1e6))
      ->capture_default_str();
  command->add_flag("--no-double-buffering", args->no_double_buffering,
                    "fetch each shard only after the previous one has ended");
  AddMemoryLimitOption(*command, args->memory_limit,
                       "memory of a device that shards may use, such as 16GB");
  command->add_option("--device", args->device, "devices of a real run: cpu (threads) or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  AddDeterministicFlag(*command, args->deterministic);
  command->add_option("--checkpoint", args->checkpoint,
                      "folder for a checkpoint of every job; the same command resumes from it");
  AddOverrideFlag(
      *command, args->override_settings,
      "resume from a checkpoint even if the model, data, seed, optimizer or another setting of "
      "its job that changes the result has changed since");
  AddCheckpointEveryOption(*command, args->every, "");
  command->add_option("--spill", args->options.spill,
                      "folder for memory-mapped files, used if host memory is too small");
  AddThreadsOption(*command, args->threads, "for the kernels of a device");
  AddJsonFlag(*command, args->json);
  command->footer(
      "Models are cut into shards, two of which fit on a device. Any device runs the next shard of "
      "any\njob. With --simulate, everything shown is simulated.\n"
      "\n"
      "Examples:\n"
      "  heddle fleet jobs.yaml --simulate --cluster dgx-v100:1\n"
      "  heddle fleet jobs.yaml --cluster local:2 --memory-limit 500MB --checkpoint runs");
  command->callback([args] { RunFleet(*args); });
}

}  // namespace heddle
