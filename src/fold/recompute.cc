#include "fold/recompute.h"

#include <algorithm>

namespace heddle {

double RecomputedBytes(const Graph& graph, const std::vector<Rule>& rules, const GradientFlow& flow,
                       const Folding& folding, int64_t float_bytes) {
  std::vector<bool> folded(graph.nodes.size(), false);
  double crossing = 0, at_work = 0;
  for (const Chain& chain : folding.chains) {
    for (const auto& copy : chain.copies) {
      for (NodeId id : copy) folded[id.index()] = true;
    }
    // Values that cross are f32 in a model file.
    double scale = float_bytes == 0 ? 1 : static_cast<double>(float_bytes) / 4;
    crossing += static_cast<double>(chain.crossing_bytes) * static_cast<double>(chain.count()) * scale;
    at_work = std::max(at_work, KeptBytes(graph, rules, flow, chain.copies.back(), float_bytes));
  }
  std::vector<NodeId> outside;
  for (NodeId id : AllNodes(graph)) {
    if (!folded[id.index()]) outside.push_back(id);
  }
  return KeptBytes(graph, rules, flow, outside, float_bytes) + crossing + at_work;
}

}  // namespace heddle
