#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/plan_args.h"
#include "program/lower.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

struct SimulateArgs {
  std::string plan, model, trace;
  std::string stack{kDefaultStack};
  std::vector<std::string> slow;
  bool no_fold = false;
  bool json = false;
};

void RunSimulate(const SimulateArgs& args) {
  SimOptions options;
  options.stack = FindStackCosts(args.stack);
  for (const std::string& text : args.slow) options.slow.push_back(ParseSlow(text));
  options.fold = !args.no_fold;
  LoadedPlan loaded = LoadPlan(args.plan, args.model);
  Program program = Lower(loaded.model, loaded.plan);
  SimResult result = Simulate(program, loaded.plan.cluster, options);
  fmt::print("step {:.6f} s  bubble {:.4f}  exposed {:.4f} events {} prepare {:.3f} simulate {:.3f}\n",
             result.step_seconds, result.bubble, result.exposed_communication, result.events,
             result.prepare_seconds, result.simulate_seconds);
  for (size_t t = 0; t < kTermCount; ++t) {
    fmt::print("  {:<16} {:.6f}\n", kTermNames[t], result.critical.seconds[t]);
  }
  for (const DeviceResult& d : result.devices) {
    fmt::print("  d{} x{} compute {:.6f} exposed {:.6f} bubble {:.6f}\n", d.device, d.count, d.compute, d.exposed, d.bubble);
  }
}

}  // namespace

void AddSimulate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("simulate", "how fast a plan is and what memory it takes");
  auto args = std::make_shared<SimulateArgs>();
  command->add_option("PLAN", args->plan, "a plan file (see 'heddle plan -o')")->required();
  command->add_option("--model", args->model, "the model, if not where the plan says");
  command->add_option("--stack", args->stack, "the software whose habits and speed are assumed")
      ->capture_default_str();
  command->add_option("--slow", args->slow, "a device or its links slower: device=3,factor=1.5");
  command->add_flag("--no-fold", args->no_fold, "simulate every device, alike or not");
  command->add_option("--trace", args->trace, "a trace for Perfetto");
  command->add_flag("--json", args->json, "print one JSON object on standard output");
  command->callback([args] { RunSimulate(*args); });
}

}  // namespace heddle
