#include "validate/published_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "plan/describe.h"
#include "program/lower.h"
#include "search/searcher.h"
#include "validate/configure.h"

namespace heddle {
namespace {

// As in "dp 8 x tp 8 x pp 16, 12 micro-batches, 1f1b, ZeRO 1, full".
std::string DegreesInWords(const Plan& plan) {
  std::string text;
  const Stage& first = plan.stages.front();
  for (const MeshAxis& axis : first.mesh.axes) {
    text += fmt::format("{}{}", text.empty() ? "" : " x ", ToString(axis));
  }
  if (text.empty()) text = "dp 1";
  int64_t pp = static_cast<int64_t>(plan.stages.size()) / plan.chunks;
  if (pp > 1) text += fmt::format(" x pp {}", pp);
  text += fmt::format(", {} micro-batch{}", plan.microbatches, plan.microbatches == 1 ? "" : "es");
  if (pp > 1) text += ", " + plan.schedule;
  if (plan.chunks > 1) text += fmt::format(" of {} chunks", plan.chunks);
  text += fmt::format(", ZeRO {}", plan.zero.level);
  text += OffloadInWords(plan);
  // The policy that recomputes most, over all layers.
  RecomputePolicy most = RecomputePolicy::kNone;
  bool mixed = false;
  for (const Stage& stage : plan.stages) {
    for (RecomputePolicy policy : stage.recompute) {
      mixed = mixed || policy != first.recompute.front();
      most = std::max(most, policy);
    }
  }
  if (most == RecomputePolicy::kNone) return text;
  return text + fmt::format(", {}recompute {}", mixed ? "some " : "", Name(most));
}

void Fill(const PublishedRun& run, PlanComparison& out) {
  RunSetup setup = Configure(run);
  out.stack = setup.stack;
  out.reason = setup.reason;
  if (!out.reason.empty()) return;
  Cluster cluster = setup.plan.cluster;
  SearchProblem problem{.model = setup.model, .cluster = cluster};
  problem.precision = setup.plan.precision.compute;
  problem.gradients = setup.plan.precision.gradients;
  problem.products = setup.plan.precision.products;
  problem.bucket_bytes = setup.plan.bucket_bytes;
  problem.sim.stack = FindStackCosts(setup.stack);
  out.published = DegreesInWords(setup.plan);
  SimResult published = Simulate(Lower(setup.model, setup.plan), cluster, problem.sim);
  out.published_step = published.step_seconds;
  out.published_bytes = static_cast<double>(published.reserved_memory_bytes);
  out.limit = static_cast<double>(MemoryLimit(problem));
  if (out.raised()) {
    problem.reserve = 0;
    problem.memory_limit = published.reserved_memory_bytes;
    for (DeviceType& type : cluster.device_types) {
      type.memory.value = std::max(type.memory.value, published.reserved_memory_bytes);
    }
  }
  SearchTask task(problem);
  task.effort.every_microbatch = true;
  task.effort.judged = 6;
  SearchResult result = Search(*FindSearcher("auto"), task);
  out.search_seconds = result.seconds;
  out.fits = result.feasible();
  if (result.judged.empty()) return;
  const JudgedPlan& best = result.judged.front();
  out.found = DegreesInWords(best.plan);
  out.from = best.from;
  out.found_step = best.result.step_seconds;
  out.found_bytes = static_cast<double>(best.reserved());
}

std::string Gain(const PlanComparison& run) {
  return run.fits ? fmt::format("{:+.1f} %", 100 * (run.speedup() - 1)) : "does not fit";
}

std::string RaisedNote(const PlanComparison& run) {
  if (!run.raised()) return "";
  return fmt::format("{} instead of {}",
                     FormatBytes(Bytes{static_cast<int64_t>(run.published_bytes)}),
                     FormatBytes(Bytes{static_cast<int64_t>(run.limit)}));
}

std::string Summary(const PublishedPlanReport& report) {
  return fmt::format(
      "By the simulator, {} of {} found plans are at least as fast as the published configuration, "
      "and {} are faster by more than 0.1 %; the geometric mean speedup is {:.2f}. {} published "
      "configurations need more memory than plans may usually use; for these, the search may use "
      "as much.",
      report.at_least_as_fast, report.runs.size(), report.faster, report.mean_speedup,
      report.raised);
}

}  // namespace

PlanComparison Compare(const PublishedRun& run) {
  PlanComparison out;
  out.id = run.id;
  try {
    Fill(run, out);
  } catch (const InputError& error) {
    out.reason = error.what();
  }
  return out;
}

std::vector<PlanComparison> CompareAll(const std::vector<PublishedRun>& runs,
                                       const std::function<void(size_t)>& done) {
  std::vector<PlanComparison> out;
  for (const PublishedRun& run : runs) {
    out.push_back(Compare(run));
    if (done) done(out.size());
  }
  return out;
}

PublishedPlanReport MakePlanReport(std::vector<PlanComparison> runs) {
  PublishedPlanReport report;
  double logs = 0;
  for (PlanComparison& run : runs) {
    if (!run.reason.empty()) continue;
    report.at_least_as_fast += run.as_fast() ? 1 : 0;
    report.faster += run.speedup() > 1.001 ? 1 : 0;
    report.raised += run.raised() ? 1 : 0;
    if (run.fits) logs += std::log(run.speedup());
    report.search_seconds += run.search_seconds;
    report.runs.push_back(std::move(run));
  }
  double count = static_cast<double>(std::max<size_t>(1, report.runs.size()));
  report.mean_speedup = std::exp(logs / count);
  return report;
}

Json ToJson(const PublishedPlanReport& report) {
  Json json;
  json["runs"] = Json::array();
  for (const PlanComparison& run : report.runs) {
    json["runs"].push_back({{"id", run.id},
                            {"stack", run.stack},
                            {"published", run.published},
                            {"published_step_seconds", run.published_step},
                            {"published_memory_bytes", run.published_bytes},
                            {"memory_limit_bytes", std::max(run.limit, run.published_bytes)},
                            {"memory_limit_raised", run.raised()},
                            {"found", run.found},
                            {"from", run.from},
                            {"found_step_seconds", run.found_step},
                            {"found_memory_bytes", run.found_bytes},
                            {"speedup", run.speedup()},
                            {"feasible", run.fits},
                            {"search_seconds", run.search_seconds}});
  }
  json["compared"] = report.runs.size();
  json["at_least_as_fast"] = report.at_least_as_fast;
  json["faster"] = report.faster;
  json["mean_speedup"] = report.mean_speedup;
  json["search_seconds"] = report.search_seconds;
  json["simulated"] = true;
  return json;
}

std::string ToText(const PublishedPlanReport& report) {
  std::string text;
  for (const PlanComparison& run : report.runs) {
    text += fmt::format("{}\n  published {:>9.3f} s  {}\n  found     {:>9.3f} s  {}  ({}{})\n",
                        run.id, run.published_step, run.published, run.found_step, run.found,
                        Gain(run), run.raised() ? ", memory " + RaisedNote(run) : "");
  }
  std::string slower;
  for (const PlanComparison& run : report.runs) {
    if (!run.as_fast()) slower += fmt::format("  {:<58} {}\n", run.id, Gain(run));
  }
  if (!slower.empty()) text += "\nslower than published\n" + slower;
  return text + "\n" + Summary(report) + "\n";
}

std::string ToMarkdown(const PublishedPlanReport& report) {
  std::string text =
      "# Published runs and the plans found for them\n\n`heddle validate --plans --markdown "
      "docs/published-plans.md` wrote this page. The search gets the model, cluster,\nbatch, "
      "precision and software stack of each complete published run. Both plans are simulated.\n\n" +
      Summary(report) +
      "\n\n| run | published | s | found | s | faster by | memory limit |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const PlanComparison& run : report.runs) {
    text += fmt::format("| {} | {} | {:.3f} | {} | {:.3f} | {} | {} |\n", run.id, run.published,
                        run.published_step, run.found, run.found_step, Gain(run), RaisedNote(run));
  }
  return text;
}

}  // namespace heddle
