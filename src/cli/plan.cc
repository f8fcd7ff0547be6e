#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/phases.h"
#include "cli/plan_args.h"
#include "cli/plan_search.h"
#include "cli/quantity_args.h"
#include "cli/shared_options.h"
#include "cluster/load.h"
#include "plan/plan_file.h"
#include "plan/verify.h"
#include "report/alternatives.h"
#include "report/plan_report.h"

namespace heddle {
namespace {

struct PlanArgs {
  ModelArgs model;
  DegreeArgs degrees;
  SearchArgs search;
  std::string cluster;
  std::string output;
  std::string mtbf;
};

// The same search for the model before pruning. nullopt if the model is not pruned, or if the dense model does not fit.
std::optional<SearchResult> Dense(const PlanArgs& args, const Model& model, const Cluster& cluster,
                                  const Plan& plan) {
  if (!plan.pruning.any()) return std::nullopt;
  SearchArgs search = args.search;
  search.sparsity = 0;
  search.mask.clear();
  std::string searcher;
  try {
    return FindPlan(search, args.degrees, model, cluster, &searcher);
  } catch (const Infeasible&) {
    return std::nullopt;
  }
}

Model ReadModel(const PlanArgs& args) {
  Phases phases("planning", 1);
  phases.Begin("reading the model");
  return AnalyseToTrain(args.model.Load(), args.model.model);
}

void RunPlan(const PlanArgs& args) {
  double mtbf = args.mtbf.empty() ? 0 : ParseSeconds("--mtbf", args.mtbf);
  Cluster cluster = LoadCluster(args.cluster);
  Model model = ReadModel(args);
  std::string searcher;
  SearchResult result = FindPlan(args.search, args.degrees, model, cluster, &searcher);
  Plan& plan = result.judged.front().plan;
  uint64_t hash = plan.model.hash;
  plan.model = RefOf(args.model, args.output);
  plan.model.hash = hash;
  plan.search_stopped = result.stopped;
  RequireSound(plan, model, args.model.model);
  if (!args.output.empty()) WriteFileAtomically(args.output, ToJson(plan, model));
  // A user who interrupts the search wants its result at once, so nothing else is searched or simulated.
  std::optional<SearchResult> dense;
  if (!result.stopped) dense = Dense(args, model, cluster, plan);
  PlanReport report{model, result, searcher, args.output, mtbf, dense ? &*dense : nullptr};
  report.precision_auto = args.degrees.ChoosesPrecision();
  if (!result.stopped) {
    report.local = WithLocalStatistics(ProblemOf(args.search, args.degrees, model, cluster),
                                       result.judged.front());
  }
  if (args.model.json) {
    PrintJson(ToJson(report));
  } else {
    fmt::print("{}", Screen(report));
  }
}

}  // namespace

void AddPlan(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("plan", "find the fastest plan for training a model on a cluster");
  auto args = std::make_shared<PlanArgs>();
  args->model.Add(*command);
  AddClusterOption(*command, args->cluster);
  args->search.Add(*command);
  args->degrees.Add(*command);
  command->add_option("-o,--output", args->output, "write the plan to this JSON file");
  AddMtbfOption(*command, args->mtbf, "such as 12h: prints how often to save a checkpoint");
  std::string terms;
  for (const PlanTerm& term : PlanTerms()) {
    terms += fmt::format("  {}: {}\n", term.word, term.meaning);
  }
  command->footer(
      "Degrees that are not given are searched for, and so are micro-batches, schedule, chunks, "
      "ZeRO,\nrecomputation, offload and how gradients are reduced. Where --dp, --tp and --pp are "
      "all given,\ntheir product is the number of devices, and there is no context parallelism. "
      "With --cp, --ep, --sp,\n--shares or --sync the plan is the expert's, at exactly these "
      "degrees.\n\n"
      "Words in the names of alternatives:\n" +
      terms +
      "\nExamples:\n"
      "  heddle plan gpt2 --cluster local:4 -o plan.json\n"
      "  heddle plan gpt3-175b --cluster dgx-h100:128 --batch 1536\n"
      "  heddle plan gpt3-2.7b --cluster summit:85 --batch 512 --sparsity 0.9\n"
      "  heddle plan llama2-7b --cluster dgx-h100:2 --batch 128 --pp 2 --memory-limit 40GiB\n"
      "  heddle plan gpt3-175b --cluster dgx-h100:128 --batch 1536 --tp 8 --pp 16 --sp "
      "--microbatches 192");
  command->callback([args] { RunPlan(*args); });
}

}  // namespace heddle
