#include "report/space.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/option_types.h"
#include "cli/plan_args.h"
#include "cli/plan_search.h"
#include "cli/shared_options.h"
#include "cluster/load.h"

namespace heddle {
namespace {

constexpr std::array<std::string_view, 2> kFormats = {"csv", "json"};

struct SpaceArgs {
  ModelArgs model;
  DegreeArgs degrees;
  SearchArgs search;
  std::string cluster, output;
  std::string format = "csv";
  size_t limit = 2000;
};

void CheckArgs(const SpaceArgs& args) {
  if (std::find(kFormats.begin(), kFormats.end(), args.format) == kFormats.end()) {
    ThrowInput("--format {}: {}", args.format, DidYouMean(args.format, kFormats));
  }
  if (std::string option = args.degrees.FirstOfExpert(); !option.empty()) {
    ThrowInput("{} is only for the expert's plan: the search chooses it itself", option);
  }
}

void Write(const SpaceArgs& args, const Space& space) {
  bool json = args.model.json || args.format == "json";
  if (args.output.empty()) {
    json ? PrintJson(ToJson(space)) : fmt::print("{}", ToCsv(space));
    return;
  }
  WriteFileAtomically(args.output, json ? ToJson(space).dump(1) + "\n" : ToCsv(space));
  if (!args.model.json) return;
  Json summary = SummaryJson(space);
  summary["output"] = args.output;
  PrintJson(summary);
}

void RunSpace(const SpaceArgs& args) {
  CheckArgs(args);
  Cluster cluster = LoadCluster(args.cluster);
  Model model = AnalyseToTrain(args.model.Load(), args.model.model);
  SearchProblem problem = ProblemOf(args.search, args.degrees, model, cluster);
  size_t count = SpaceOf(problem).size();
  if (count > args.limit) {
    ThrowInput(
        "there are {} configurations, more than --limit {}: fix a degree such as --pp 1 or "
        "--recompute none, or use --limit {}",
        count, args.limit, count);
  }
  Space space;
  {
    Progress progress("simulating", static_cast<int64_t>(count));
    space =
        EvaluateSpace(problem, [&](size_t done) { progress.Update(static_cast<int64_t>(done)); });
  }
  Write(args, space);
  fmt::print(stderr, "heddle: {}\n", SummaryLine(space));
}

}  // namespace

void AddSpace(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("space", "evaluate every configuration of a small search space");
  auto args = std::make_shared<SpaceArgs>();
  args->model.Add(*command);
  AddClusterOption(*command, args->cluster);
  args->search.AddLimits(*command);
  args->degrees.Add(*command);
  command->add_option("--limit", args->limit, "the most configurations to simulate")
      ->transform(IntegerIn(1))
      ->capture_default_str();
  command->add_option("--format", args->format, "format of the table: csv, json")
      ->capture_default_str();
  command->add_option("-o,--output", args->output, "write the table to this file");
  command->footer(
      "Estimates and simulates every configuration of the search under every recomputation policy, "
      "with the\nbest strategies for it. Configurations that fit come first, fastest first. "
      "Standard error has the rank\ncorrelation of estimates and simulations.\n\n"
      "Example:\n"
      "  heddle space gpt2 --cluster dgx-h100:1 --batch 64 --pp 1 -o space.csv");
  command->callback([args] { RunSpace(*args); });
}

}  // namespace heddle
