#include <fmt/format.h>

#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/shared_options.h"
#include "validate/case_studies.h"
#include "validate/published_plans.h"
#include "validate/report.h"

namespace heddle {
namespace {

constexpr size_t kMaxRunsFile = size_t{64} << 20;

struct ValidateArgs {
  std::string runs;
  std::string only;
  std::string markdown;
  std::string case_studies;
  bool json = false;
  bool plans = false;
};

std::vector<PublishedRun> LoadRuns(const ValidateArgs& args) {
  std::vector<PublishedRun> runs =
      args.runs.empty() ? BundledRuns()
                        : ParsePublishedRuns(ReadFile(args.runs, kMaxRunsFile), args.runs);
  if (args.only.empty()) return runs;
  std::erase_if(runs, [&](const PublishedRun& run) {
    return run.id.find(args.only) == std::string::npos &&
           run.source_id.find(args.only) == std::string::npos;
  });
  if (runs.empty()) ThrowInput("--only {}: no id or source of a run contains this", args.only);
  return runs;
}

std::vector<Prediction> PredictWithProgress(const std::vector<PublishedRun>& runs) {
  Progress progress("simulating published runs", static_cast<int64_t>(runs.size()));
  int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
  return PredictAll(runs, threads,
                    [&](size_t done) { progress.Update(static_cast<int64_t>(done)); });
}

void RunPlans(const ValidateArgs& args) {
  std::vector<PublishedRun> runs = LoadRuns(args);
  std::erase_if(runs, [](const PublishedRun& run) { return !IsComplete(run); });
  PublishedPlanReport report;
  {
    Progress progress("planning published runs", static_cast<int64_t>(runs.size()));
    report = MakePlanReport(
        CompareAll(runs, [&](size_t done) { progress.Update(static_cast<int64_t>(done)); }));
  }
  if (!args.markdown.empty()) WriteFileAtomically(args.markdown, ToMarkdown(report));
  if (args.json) {
    PrintJson(ToJson(report));
  } else {
    fmt::print("{}", ToText(report));
  }
}

// Throws if the page cannot be written, before the long simulation starts.
void CheckPage(const std::string& path) {
  if (!path.empty()) AtomicFile checked(path);
}

void RunValidate(const ValidateArgs& args) {
  CheckPage(args.markdown);
  CheckPage(args.case_studies);
  if (!args.case_studies.empty()) {
    WriteFileAtomically(args.case_studies, CaseStudiesPage());
    fmt::print("written to {}\n", args.case_studies);
    return;
  }
  if (args.plans) return RunPlans(args);
  ValidationReport report = MakeReport(PredictWithProgress(LoadRuns(args)));
  if (!args.markdown.empty()) WriteFileAtomically(args.markdown, ToMarkdown(report));
  if (args.json) {
    PrintJson(ToJson(report));
  } else {
    fmt::print("{}", ToText(report));
  }
}

}  // namespace

void AddValidate(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "validate", "compare simulated steps with those of published training runs");
  auto args = std::make_shared<ValidateArgs>();
  command->add_option("RUNS", args->runs, "a file of runs (default: the bundled ones)");
  command->add_option("--only", args->only, "only runs whose id or source contains this text");
  command->add_option("--markdown", args->markdown, "also write the tables as a page");
  command->add_option("--case-studies", args->case_studies,
                      "write the page of case studies instead");
  command->add_flag(
      "--plans", args->plans,
      "compare the plan that the search finds for every complete run with the published one");
  AddJsonFlag(*command, args->json);
  command->footer(
      "Runs are configured as published, lowered and simulated like any plan. \"left out\" is the "
      "error if the constants\nare fitted on all other sources.\n\n"
      "Examples:\n"
      "  heddle validate\n"
      "  heddle validate --only korthikanti2022-table5\n"
      "  heddle validate --plans --only bloom\n"
      "  heddle validate my_runs.json --json");
  command->callback([args] { RunValidate(*args); });
}

}  // namespace heddle
