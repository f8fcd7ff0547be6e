#include "search/placement/block_times.h"

#include <algorithm>
#include <queue>

#include "base/parallel.h"
#include "cluster/topology.h"
#include "search/prices/costs.h"

namespace heddle {
namespace {

DeviceId FirstOf(const Cluster& cluster, DeviceTypeId type) {
  for (const DeviceRun& run : EqualRuns(cluster)) {
    if (run.type == type) return run.first;
  }
  return DeviceId{0};
}

}  // namespace

int64_t DivisorUpTo(int64_t n, int64_t limit) {
  for (int64_t d = std::min(n, limit); d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

BlockTimes::BlockTimes(const SearchProblem& problem, const Model& model) {
  Precision precision = PrecisionOf(problem);
  Network network(problem.cluster, LinkEfficiency(problem.cluster, problem.sim));
  int64_t batch = std::max<int64_t>(1, BatchSize(model));
  std::vector<int64_t> parts;
  for (int64_t part : {8, 4, 2, 1}) {
    int64_t divisor = DivisorUpTo(batch, part);
    if (parts.empty() || parts.back() != divisor) parts.push_back(divisor);
  }
  size_t types = problem.cluster.device_types.size();
  points_.assign(types, std::vector<Point>(parts.size()));
  InParallel(types * parts.size(), [&](size_t i) {
    size_t type = i / parts.size(), p = i % parts.size();
    Mesh one;
    one.first = FirstOf(problem.cluster, DeviceTypeId::FromIndex(type)).value;
    CostOptions options;
    options.parts = parts[p];
    options.precision = precision;
    options.sim = problem.sim;
    options.network = &network;
    StageCosts costs(model, problem.cluster, one, options);
    Point& point = points_[type][p];
    point.samples = static_cast<double>(batch / parts[p]);
    point.before = {0};
    for (const ModelBlock& block : model.blocks) {
      double seconds = 0;
      for (NodeId id : block.nodes) {
        ChoiceCost cost = costs.OfNode(id, {}, {});
        seconds += cost.forward + cost.backward + cost.weight;
      }
      point.before.push_back(point.before.back() + seconds);
    }
  });
}

double BlockTimes::Seconds(DeviceTypeId type, int first, int last, double samples) const {
  const std::vector<Point>& points = points_[type.index()];
  auto at = [&](size_t p) {
    return points[p].before[static_cast<size_t>(last)] -
           points[p].before[static_cast<size_t>(first)];
  };
  if (points.size() == 1) return at(0) * samples / points[0].samples;
  size_t p = 1;
  while (p + 1 < points.size() && points[p].samples < samples) ++p;
  double slope = std::max(0.0, (at(p) - at(p - 1)) / (points[p].samples - points[p - 1].samples));
  return std::max(0.0, at(p) + slope * (samples - points[p].samples));
}

std::vector<int64_t> ShareSamples(int64_t samples, size_t devices,
                                  const std::function<double(size_t, int64_t)>& seconds) {
  std::vector<int64_t> shares(devices, 0);
  using Next = std::pair<double, size_t>;  // when the device would end with one more sample
  std::priority_queue<Next, std::vector<Next>, std::greater<Next>> next;
  for (size_t d = 0; d < devices; ++d) next.push({seconds(d, 1), d});
  for (int64_t s = 0; s < samples; ++s) {
    size_t d = next.top().second;
    next.pop();
    next.push({seconds(d, ++shares[d] + 1), d});
  }
  return shares;
}

}  // namespace heddle
