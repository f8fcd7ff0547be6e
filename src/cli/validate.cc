#include <fmt/format.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/commands.h"
#include "validate/configure.h"

namespace heddle {
namespace {

struct ValidateArgs {
  std::string file;
  bool json = false;
};

struct RunRow {
  const PublishedRun* run = nullptr;
  RunSetup setup;
};

std::vector<PublishedRun> LoadRuns(const std::string& file) {
  if (file.empty()) return BundledRuns();
  return ParsePublishedRuns(ReadFile(file, kMaxJsonBytes), file);
}

Json ToJson(const RunRow& row) {
  Json json;
  json["id"] = row.run->id;
  json["stack"] = row.setup.stack;
  json["measured"] = nullptr;
  if (std::optional<double> seconds = MeasuredSeconds(*row.run)) json["measured"] = *seconds;
  if (!row.setup.reason.empty()) {
    json["reason"] = row.setup.reason;
    return json;
  }
  json["model"] = row.setup.plan.model.source;
  json["cluster"] = row.setup.plan.cluster.name;
  json["remarks"] = row.setup.remarks;
  return json;
}

void Print(const RunRow& row) {
  std::optional<double> seconds = MeasuredSeconds(*row.run);
  fmt::print("{:<56} {:>7} {:>11}  {:<24} {}\n", row.run->id, row.run->gpus,
             seconds ? fmt::format("{:.3f} s", *seconds) : "-", row.setup.stack, row.setup.reason);
  for (const std::string& remark : row.setup.remarks) fmt::print("  {}\n", remark);
}

void Validate(const ValidateArgs& args) {
  std::vector<PublishedRun> runs = LoadRuns(args.file);
  Json json = {{"runs", Json::array()}};
  size_t planned = 0;
  if (!args.json) fmt::print("{:<56} {:>7} {:>11}  {}\n", "run", "devices", "measured", "software");
  for (const PublishedRun& run : runs) {
    RunRow row{&run, Configure(run)};
    planned += row.setup.reason.empty() ? 1 : 0;
    if (args.json) {
      json["runs"].push_back(ToJson(row));
    } else {
      Print(row);
    }
  }
  if (args.json) {
    PrintJson(json);
  } else {
    fmt::print("{} of {} runs can be planned\n", planned, runs.size());
  }
}

}  // namespace

void AddValidate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("validate", "published training runs as heddle's plans");
  auto args = std::make_shared<ValidateArgs>();
  command->add_option("RUNS", args->file, "a JSON file of published runs (default: the bundled)");
  command->add_flag("--json", args->json, "print one JSON object on standard output");
  command->footer("Example:\n  heddle validate");
  command->callback([args] { Validate(*args); });
}

}  // namespace heddle
