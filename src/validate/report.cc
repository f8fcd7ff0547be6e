#include "validate/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cost/constants.h"
#include "validate/fit.h"

namespace heddle {
namespace {

void AddErrors(const Prediction& run, SourceErrors& source) {
  double error = std::abs(*run.error());
  ++source.runs;
  source.mean += error;
  source.most = std::max(source.most, error);
  for (size_t t = 0; t < kTermCount; ++t) {
    source.share.seconds[t] += run.critical.seconds[t] / *run.predicted;
  }
}

// Predicts a source with constants that are fitted without it.
void AddLeftOut(const std::vector<Prediction>& runs, SourceErrors& source) {
  FitFactors current = CurrentFactors(runs), fitted = Fit(runs, source.source);
  for (const Prediction& run : runs) {
    if (run.source != source.source || !run.error()) continue;
    double predicted = Repredict(run, current, fitted);
    source.left_out += std::abs(predicted / *run.measured - 1) / source.runs;
  }
}

std::string Percent(double part) { return fmt::format("{:.1f} %", 100 * part); }
std::string Signed(double part) { return fmt::format("{:+.1f} %", 100 * part); }

// As in "products 62 %, inner links 21 %, memory traffic 9 %".
std::string Largest(const Terms& terms, double total, size_t count) {
  std::vector<size_t> order;
  for (size_t t = 0; t < kTermCount; ++t) order.push_back(t);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return terms.seconds[a] > terms.seconds[b]; });
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    double share = terms.seconds[order[i]] / total;
    if (share < 0.005) break;
    text += fmt::format("{}{} {:.0f} %", i == 0 ? "" : ", ", kTermNames[order[i]], 100 * share);
  }
  return text;
}

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json ToJson(const Prediction& run) {
  Json json = {{"id", run.id},
               {"source", run.source},
               {"measured", OrNull(run.measured)},
               {"predicted", OrNull(run.predicted)},
               {"error", OrNull(run.error())}};
  if (!run.reason.empty()) json["reason"] = run.reason;
  if (!run.stack.empty()) json["stack"] = run.stack;
  if (run.predicted) {
    json["bubble"] = run.bubble;
    json["exposed_communication"] = run.exposed;
    for (size_t t = 0; t < kTermCount; ++t) {
      json["seconds"][std::string(kTermNames[t])] = run.critical.seconds[t];
    }
  }
  if (run.measured_memory && run.predicted_memory) {
    json["measured_memory_bytes"] = *run.measured_memory;
    json["predicted_memory_bytes"] = *run.predicted_memory;
    json["memory_error"] = *run.predicted_memory / *run.measured_memory - 1;
  }
  if (!run.remarks.empty()) json["remarks"] = run.remarks;
  return json;
}

std::string MemoryError(const Prediction& run) {
  if (!run.measured_memory || !run.predicted_memory) return "";
  return Signed(*run.predicted_memory / *run.measured_memory - 1);
}

std::string RunLine(const Prediction& run) {
  if (!run.error()) {
    std::string predicted = run.predicted ? fmt::format("{:.3f}", *run.predicted) : "";
    return fmt::format("  {:<58} {:>9} {:>9}           {}\n", run.id, "", predicted, run.reason);
  }
  return fmt::format("  {:<58} {:>9.3f} {:>9.3f} {:>9} {:>9}\n", run.id, *run.measured,
                     *run.predicted, Signed(*run.error()), MemoryError(run));
}

std::string Summary(const ValidationReport& report) {
  std::string text = fmt::format(
      "{} of {} complete runs are predicted. The mean absolute error of the step time is {} (equal "
      "weight for each of {} sources; {} over runs), and {} with constants fitted without the "
      "source",
      report.predicted, report.complete, Percent(report.mean), report.sources.size(),
      Percent(report.mean_of_runs), Percent(report.left_out));
  if (report.memory_runs > 0) {
    text += fmt::format("; that of memory is {} over {} runs", Percent(report.memory_mean),
                        report.memory_runs);
  }
  return text +
         fmt::format(". There are {} constants for devices and stacks, and none for single runs.",
                     report.constants);
}

}  // namespace

ValidationReport MakeReport(std::vector<Prediction> runs) {
  ValidationReport report;
  report.runs = std::move(runs);
  report.constants = ConstantCount();
  std::map<std::string, SourceErrors> sources;
  double errors = 0, count = 0;
  for (const Prediction& run : report.runs) {
    report.complete += run.complete ? 1 : 0;
    report.predicted += run.predicted ? 1 : 0;
    if (run.measured_memory && run.predicted_memory) {
      ++report.memory_runs;
      report.memory_mean += std::abs(*run.predicted_memory / *run.measured_memory - 1);
    }
    if (!run.error()) continue;
    sources[run.source].source = run.source;
    AddErrors(run, sources[run.source]);
    errors += std::abs(*run.error());
    count += 1;
  }
  if (report.memory_runs > 0) report.memory_mean /= report.memory_runs;
  if (count > 0) report.mean_of_runs = errors / count;
  for (auto& [name, source] : sources) {
    source.mean /= source.runs;
    for (double& share : source.share.seconds) share /= source.runs;
    AddLeftOut(report.runs, source);
    double each = 1 / static_cast<double>(sources.size());
    report.mean += source.mean * each;
    report.left_out += source.left_out * each;
    report.most = std::max(report.most, source.most);
    report.sources.push_back(source);
  }
  return report;
}

Json ToJson(const ValidationReport& report) {
  Json json;
  json["runs"] = Json::array();
  for (const Prediction& run : report.runs) json["runs"].push_back(ToJson(run));
  json["sources"] = Json::array();
  for (const SourceErrors& source : report.sources) {
    json["sources"].push_back({{"source", source.source},
                               {"runs", source.runs},
                               {"mean_abs_error", source.mean},
                               {"max_abs_error", source.most},
                               {"left_out_mean_abs_error", source.left_out}});
  }
  json["mean_abs_error"] = report.mean;  // equal weight for every source
  json["max_abs_error"] = report.most;
  json["mean_abs_error_over_runs"] = report.mean_of_runs;
  json["left_out_mean_abs_error"] = report.left_out;
  json["predicted"] = report.predicted;
  json["complete"] = report.complete;
  json["memory_runs"] = report.memory_runs;
  json["memory_mean_abs_error"] = report.memory_mean;
  json["constants"] = report.constants;
  json["simulated"] = true;
  return json;
}

std::string ToText(const ValidationReport& report) {
  std::string text = fmt::format("  {:<58} {:>9} {:>9} {:>9} {:>9}\n", "run", "measured",
                                 "predicted", "error", "memory");
  int missing = 0;
  for (const Prediction& run : report.runs) {
    missing += run.complete ? 0 : 1;
    if (run.complete) text += RunLine(run);
  }
  if (missing > 0)
    text += fmt::format("  ... and {} runs that are not published in enough detail\n", missing);
  text += fmt::format("\n  {:<32} {:>4} {:>8} {:>8} {:>9}  {}\n", "source", "runs", "mean", "worst",
                      "left out", "largest terms of its steps");
  for (const SourceErrors& source : report.sources) {
    text += fmt::format("  {:<32} {:>4} {:>8} {:>8} {:>9}  {}\n", source.source, source.runs,
                        Percent(source.mean), Percent(source.most), Percent(source.left_out),
                        Largest(source.share, 1, 3));
  }
  std::vector<const Prediction*> worst;
  for (const Prediction& run : report.runs) {
    if (run.error()) worst.push_back(&run);
  }
  std::stable_sort(worst.begin(), worst.end(), [](const Prediction* a, const Prediction* b) {
    return std::abs(*a->error()) > std::abs(*b->error());
  });
  text += "\n  largest errors\n";
  for (size_t i = 0; i < std::min<size_t>(8, worst.size()); ++i) {
    text += fmt::format("  {:<58} {:>8}  {}\n", worst[i]->id, Signed(*worst[i]->error()),
                        Largest(worst[i]->critical, *worst[i]->predicted, 3));
  }
  return text + "\n" + Summary(report) + "\n";
}

std::string ToMarkdown(const ValidationReport& report) {
  std::string text =
      "# Published runs, simulated\n\n`heddle validate --markdown docs/validation.md` wrote this "
      "page.\n\n" +
      Summary(report) + "\n\n| source | runs | mean | worst | left out |\n|---|---|---|---|---|\n";
  for (const SourceErrors& source : report.sources) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", source.source, source.runs,
                        Percent(source.mean), Percent(source.most), Percent(source.left_out));
  }
  text +=
      "\n| run | stack | measured s | predicted s | error | memory |\n|---|---|---|---|---|---|\n";
  for (const Prediction& run : report.runs) {
    if (!run.error()) continue;
    text += fmt::format("| {} | {} | {:.3f} | {:.3f} | {} | {} |\n", run.id, run.stack,
                        *run.measured, *run.predicted, Signed(*run.error()), MemoryError(run));
  }
  return text;
}

}  // namespace heddle
