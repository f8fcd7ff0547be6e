#include <fmt/format.h>

#include <cmath>
#include <map>
#include <thread>

#include "base/file.h"
#include "cli/commands.h"
#include "validate/fit.h"
#include "validate/predict.h"

namespace heddle {
namespace {

struct ValidateArgs {
  std::string runs, only;
  bool json = false;
};

void RunValidate(const ValidateArgs& args) {
  std::vector<PublishedRun> runs =
      args.runs.empty() ? BundledRuns() : ParsePublishedRuns(ReadFile(args.runs, size_t{64} << 20), args.runs);
  if (!args.only.empty()) std::erase_if(runs, [&](const PublishedRun& r) { return r.id.find(args.only) == std::string::npos; });
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
  FitFactors current = CurrentFactors(rows), fitted = Fit(rows);
  std::map<std::string, std::pair<double, double>> after;
  for (const Prediction& p : rows) {
    if (!p.error()) continue;
    double e = Repredict(p, current, fitted) / *p.measured - 1;
    fmt::print("FIT {:<60} {:+.1f}% -> {:+.1f}%\n", p.id, 100 * *p.error(), 100 * e);
    double n = static_cast<double>(by[p.source].size());
    after[p.source].first += std::abs(e) / n;
  }
  double total = 0, out = 0;
  for (auto& [source, pair] : after) {
    FitFactors left = Fit(rows, source);
    for (const Prediction& p : rows) {
      if (!p.error() || p.source != source) continue;
      pair.second += std::abs(Repredict(p, current, left) / *p.measured - 1) / static_cast<double>(by[source].size());
    }
    fmt::print("FITSRC {:<30} {:.1f}%  left out {:.1f}%\n", source, 100 * pair.first, 100 * pair.second);
    total += pair.first; out += pair.second;
  }
  fmt::print("FITALL {:.2f}% left out {:.2f}%\n", 100 * total / (double)after.size(), 100 * out / (double)after.size());
  for (auto& [name, f] : fitted) fmt::print("FACTOR|{}|{:.4f}\n", name, f);
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
  command->add_option("--only", args->only, "");
  command->add_flag("--json", args->json, "print one JSON object on standard output");
  command->callback([args] { RunValidate(*args); });
}

}  // namespace heddle
