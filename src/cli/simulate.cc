#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/option_types.h"
#include "cli/phases.h"
#include "cli/plan_args.h"
#include "cli/profile_args.h"
#include "cli/shared_options.h"
#include "program/lower.h"
#include "report/chrome_trace.h"
#include "report/simulation.h"
#include "sim/trace_of.h"

namespace heddle {
namespace {

struct SimulateArgs {
  std::string plan, model, trace;
  int64_t trace_devices = 1;
  std::string stack{kDefaultStack};
  std::vector<std::string> slow;
  ProfileArgs profile;
  bool no_fold = false;
  bool json = false;
};

std::vector<std::string_view> StackNames() {
  std::vector<std::string_view> names;
  for (const StackCosts& stack : AllStackCosts()) names.push_back(stack.name);
  return names;
}

SimOptions OptionsOf(const SimulateArgs& args) {
  std::vector<std::string_view> stacks = StackNames();
  if (std::find(stacks.begin(), stacks.end(), args.stack) == stacks.end()) {
    ThrowInput("--stack {}: {}", args.stack, DidYouMean(args.stack, stacks));
  }
  if (args.trace_devices < 1) {
    ThrowInput("--trace-devices {}: expected at least 1 device of each kind", args.trace_devices);
  }
  SimOptions options;
  options.stack = FindStackCosts(args.stack);
  for (const std::string& text : args.slow) options.slow.push_back(ParseSlow(text));
  options.fold = !args.no_fold;
  return options;
}

// Returns the seconds since `from` and sets `from` to now.
double Lap(std::chrono::steady_clock::time_point& from) {
  auto now = std::chrono::steady_clock::now();
  double seconds = std::chrono::duration<double>(now - from).count();
  from = now;
  return seconds;
}

SimulationReport Run(const SimulateArgs& args) {
  SimOptions options = OptionsOf(args);
  Phases phases("simulating", 3 + (options.slow.empty() ? 0 : 1) + (args.trace.empty() ? 0 : 1));
  auto clock = std::chrono::steady_clock::now();
  phases.Begin("reading the plan and its model");
  LoadedPlan loaded = LoadPlan(args.plan, args.model);
  args.profile.ApplyTo(options, loaded.plan.cluster);
  double load_seconds = Lap(clock);
  phases.Begin("lowering");
  Program program = Lower(loaded.model, loaded.plan);
  double lower_seconds = Lap(clock);
  phases.Begin("running the step");
  Simulation simulation = RunSimulation(program, loaded.plan.cluster, options);
  SimulationReport report = MakeReport(loaded.model, loaded.plan, program, simulation, options);
  report.load_seconds = load_seconds;
  report.lower_seconds = lower_seconds;
  if (!options.slow.empty()) {
    phases.Begin("running it without slow devices");
    SimOptions even = options;
    even.slow.clear();
    report.even_step_seconds = Execute(Prepare(program, loaded.plan.cluster, even)).seconds;
  }
  if (!args.trace.empty()) {
    phases.Begin("writing the trace");
    TraceOptions shown;
    shown.per_class = args.trace_devices;
    MemoryModel memory(program, HabitsOf(options));
    WriteChromeTrace(ToTrace(memory, simulation.prepared, simulation.timeline, shown), args.trace);
    report.trace = args.trace;
  }
  return report;
}

void RunSimulate(const SimulateArgs& args) {
  SimulationReport report = Run(args);
  if (args.json) {
    PrintJson(ToJson(report));
  } else {
    fmt::print("{}", Screen(report));
  }
}

}  // namespace

void AddSimulate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("simulate", "predict the step time and memory of a plan");
  auto args = std::make_shared<SimulateArgs>();
  command->add_option("PLAN", args->plan, "a plan file (see 'heddle plan -o')")->required();
  AddPlanModelOption(*command, args->model);
  command
      ->add_option("--stack", args->stack,
                   fmt::format("the software whose behaviour and speed are assumed: {}",
                               fmt::join(StackNames(), ", ")))
      ->capture_default_str();
  args->profile.Add(*command);
  command
      ->add_option("--slow", args->slow,
                   "a device that computes slower (device=3,factor=1.5), or whose links are slower "
                   "(link=3,factor=2); may be repeated")
      ->allow_extra_args(false);
  command->add_flag(
      "--no-fold", args->no_fold,
      "simulate every device instead of one of each kind; slower, with the same result");
  command->add_option("--trace", args->trace,
                      "write a trace of the step, which ui.perfetto.dev opens");
  command
      ->add_option("--trace-devices", args->trace_devices,
                   "how many devices of each kind the trace shows")
      ->transform(IntegerIn(1, 1 << 20))
      ->capture_default_str();
  AddJsonFlag(*command, args->json);
  command->footer(
      "A plan that does not fit into memory is simulated, too, and reported not to fit.\n"
      "\n"
      "Examples:\n"
      "  heddle simulate plan.json --trace trace.json\n"
      "  heddle simulate plan.json --slow device=3,factor=1.5 --slow link=7,factor=2");
  command->callback([args] { RunSimulate(*args); });
}

}  // namespace heddle
