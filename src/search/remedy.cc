#include "search/remedy.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "cluster/load.h"
#include "cluster/topology.h"
#include "plan/describe.h"
#include "search/judge/judge.h"

namespace heddle {
namespace {

constexpr std::chrono::seconds kRemedyTime(30);  // time limit of the search for a remedy

// A preset with `times` as many machines; nothing where the cluster is no preset.
std::optional<Cluster> Grown(const Cluster& cluster, int64_t times) {
  size_t colon = cluster.name.find(':');
  std::string preset = cluster.name.substr(0, colon);
  int64_t count = 1;
  if (colon != std::string::npos) {
    const char *begin = cluster.name.data() + colon + 1,
               *end = cluster.name.data() + cluster.name.size();
    if (std::from_chars(begin, end, count).ptr != end) return std::nullopt;
  }
  try {
    return LoadCluster(fmt::format("{}:{}", preset, count * times));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// Why nothing fits.
std::string WhatIsMissing(const SearchResult& result, const SearchProblem& problem) {
  auto size = [](int64_t bytes) { return FormatBytes(Bytes{bytes}); };
  auto needed = static_cast<int64_t>(result.proposals.least_bytes);
  if (result.judged.empty() && needed == 0) {
    return fmt::format(
        "offload all is for devices of one kind that share a batch (of {}) evenly, in f32 or bf16",
        BatchSize(problem.model));
  }
  if (result.judged.empty()) {
    return fmt::format("at least {} a device would be needed, and {} may be used", size(needed),
                       size(result.memory_limit));
  }
  const JudgedPlan& least = result.judged.front();
  if (!least.fits_host()) {
    return fmt::format(
        "weights and state on the host take {} of a machine's memory, which has {} for them",
        size(least.host_bytes), size(*least.host_limit));
  }
  std::string which = result.judged.size() > 1
                          ? fmt::format("of those simulated {} needs least,", least.from)
                          : fmt::format("the plan of {} needs", DescribePlan(least.plan));
  return fmt::format("{} {} a device, {} more than the {} that may be used", which,
                     size(least.reserved()), size(least.reserved() - result.memory_limit),
                     size(result.memory_limit));
}

// The cheapest remedy: the fewest devices among several multiples, otherwise a smaller batch or
// another policy.
std::string Remedy(const SearcherDef& searcher, const SearchTask& task, std::string_view lacks) {
  const FixedDegrees& fixed = task.fixed;
  task.effort.Report("nothing fits: searching for what would");
  if (fixed.recompute && *fixed.recompute != kMostRecomputation) {
    SearchTask other = task;
    other.fixed.recompute.reset();
    SearchResult result = Search(searcher, other);
    if (result.feasible())
      return fmt::format("leave --recompute to the search, or use --recompute {}",
                         Name(kMostRecomputation));
  }
  if (fixed.offload == Offload::kNone && CanOffload(task.cluster)) {
    SearchTask other = task;
    other.fixed.offload.reset();
    SearchResult result = Search(searcher, other);
    if (result.feasible()) return "leave --offload to the search, or use --offload optimizer";
  }
  bool free = !fixed.dp && !fixed.tp && !fixed.pp && !fixed.zero && !fixed.microbatches;
  if (!free) {
    SearchTask other = task;
    other.fixed = {};
    SearchResult result = Search(searcher, other);
    if (result.feasible()) {
      return fmt::format("without the degrees you gave it fits: {}", result.judged.front().from);
    }
  }
  // Weights on the host are not supported for f16.
  if (task.precision == DType::kF16 && CanOffload(task.cluster) && !task.effort.Over()) {
    SearchTask other = task;
    other.fixed = {.offload = Offload::kAll};
    other.precision = DType::kF32;
    if (Search(searcher, other).feasible()) return "use --precision f32 --offload all";
  }
  for (int64_t times : {2, 4, 8, 16, 32, 64}) {
    std::optional<Cluster> grown = Grown(task.cluster, times);
    if (!grown) break;
    const Cluster& larger = *grown;
    SearchTask other(OnCluster(task, larger));
    other.fixed = {};  // the given degrees are for the present number of devices
    other.effort.judged = 1;
    other.effort.deadline = task.effort.deadline;
    other.effort.stop = task.effort.stop;
    if (other.effort.Over()) break;
    task.effort.Report(fmt::format("nothing fits: searching with {} devices", DeviceCount(larger)));
    SearchResult result = Search(searcher, other);
    if (result.feasible()) {
      return fmt::format("{} such devices are enough: {}", DeviceCount(larger),
                         result.judged.front().from);
    }
  }
  return fmt::format("take {} with more memory", lacks);
}

}  // namespace

SearchResult RequireFitting(SearchResult result, const SearcherDef& searcher,
                            const SearchTask& task) {
  if (result.feasible()) return result;
  const std::string &model = task.model.graph.name, &cluster = task.cluster.name;
  if (result.stopped) {
    throw Infeasible(fmt::format(
        "the search for {} on {} was stopped after {} before it found a plan that fits: give it a "
        "longer --budget, or fix degrees",
        model, cluster, FormatSeconds(Seconds{result.seconds})));
  }
  bool host = !result.judged.empty() && !result.judged.front().fits_host();
  throw Infeasible(fmt::format("no plan fits {} on {}: {}; {}", model, cluster,
                               WhatIsMissing(result, task),
                               Remedy(searcher, task, host ? "a machine" : "devices")));
}

void RequireFits(SearchTask task, const Plan& plan) {
  SearchResult result;
  result.memory_limit = MemoryLimit(task);
  result.judged.push_back(Judge(task, {plan, DescribePlan(plan)}));
  task.effort.deadline = std::chrono::steady_clock::now() + kRemedyTime;
  RequireFitting(std::move(result), *FindSearcher("auto"), task);
}

}  // namespace heddle
