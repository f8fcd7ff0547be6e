#include <fmt/format.h>

#include <cmath>
#include <map>
#include <thread>

#include "base/file.h"
#include "cli/commands.h"
#include "validate/predict.h"

namespace heddle {
namespace {

struct ValidateArgs {
  std::string runs;
  bool json = false;
};

void RunValidate(const ValidateArgs& args) {
  std::vector<PublishedRun> runs =
      args.runs.empty() ? BundledRuns() : ParsePublishedRuns(ReadFile(args.runs, size_t{64} << 20), args.runs);
  std::vector<Prediction> rows = PredictAll(runs, 2);
  std::map<std::string, std::vector<double>> by;
  std::vector<double> memory;
  for (const Prediction& p : rows) {
    if (!p.error()) {
      fmt::print("{:<60} {}\n", p.id, p.reason);
      continue;
    }
    by[p.source].push_back(std::abs(*p.error()));
    std::string mem;
    if (p.measured_memory && p.predicted_memory) {
      double e = *p.predicted_memory / *p.measured_memory - 1;
      memory.push_back(std::abs(e));
      mem = fmt::format(" mem {:.1f} {:.1f} {:+.1f}%", *p.measured_memory/0x1p30, *p.predicted_memory/0x1p30, 100 * e);
    }
    fmt::print("{:<60} {:>9.3f} {:>9.3f} {:+.1f}% |", p.id, *p.measured, *p.predicted, 100 * *p.error());
    for (size_t t = 0; t < kTermCount; ++t) fmt::print(" {:.0f}", 100 * p.critical.seconds[t] / *p.predicted);
    fmt::print(" b{:.0f} x{:.0f}{}\n", 100*p.bubble, 100*p.exposed, mem);
  }
  double all = 0;
  for (auto& [source, errors] : by) {
    double mean = 0, most = 0;
    for (double e : errors) mean += e, most = std::max(most, e);
    mean /= static_cast<double>(errors.size());
    all += mean;
    fmt::print("  {:<34} {:>3} mean {:.1f}% max {:.1f}%\n", source, errors.size(), 100 * mean, 100 * most);
  }
  fmt::print("all sources: {:.2f}%\n", 100 * all / static_cast<double>(by.size()));
  double m = 0;
  for (double e : memory) m += e;
  fmt::print("memory {} rows {:.2f}%\n", memory.size(), 100 * m / static_cast<double>(memory.size()));
}

}  // namespace

void AddValidate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("validate", "predicted beside published training runs");
  auto args = std::make_shared<ValidateArgs>();
  command->add_option("RUNS", args->runs, "a file of runs; without: the bundled ones");
  command->add_flag("--json", args->json, "print one JSON object on standard output");
  command->callback([args] { RunValidate(*args); });
}

}  // namespace heddle
