#include "fleet/curve.h"

#include <chrono>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "cluster/select.h"
#include "cluster/topology.h"
#include "search/searcher.h"

namespace heddle {

PlannedCurve FindCurve(const Model& model, const Cluster& cluster, const CurveOptions& options) {
  const SearcherDef* searcher = FindSearcher(options.searcher);
  HEDDLE_CHECK(searcher != nullptr);
  int64_t most = options.most_devices > 0 ? options.most_devices : DeviceCount(cluster);
  PlannedCurve out;
  std::vector<CurvePoint>& points = out.curve.points;
  for (int64_t devices = 1; devices <= most; devices *= 2) {
    if (devices < options.least_devices) continue;
    std::vector<int64_t> some(static_cast<size_t>(devices));
    std::iota(some.begin(), some.end(), 0);
    Cluster part = Select(cluster, some);
    SearchProblem problem{.model = model, .cluster = part};
    problem.precision = options.precision;
    problem.local_batch_statistics = options.local_batch_statistics;
    problem.optimizer = options.optimizer;
    problem.sim = options.sim;
    problem.pruning = options.pruning;
    if (options.memory_limit > 0) {
      problem.memory_limit = options.memory_limit;
      problem.reserve = 0;
    }
    SearchTask task(problem);
    if (options.budget > 0) {
      task.effort.deadline = std::chrono::steady_clock::now() +
                             std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                 std::chrono::duration<double>(options.budget));
    }
    SearchResult found = Search(*searcher, task);
    if (!found.feasible()) continue;
    double seconds = found.judged.front().result.step_seconds * static_cast<double>(options.steps);
    if (!points.empty() && seconds >= points.back().seconds) continue;
    points.push_back({devices, seconds});
    out.plans.push_back(found.judged.front().plan);
  }
  return out;
}

}  // namespace heddle
