#include "program/copies.h"

#include <algorithm>

namespace heddle {
namespace {

void AddUnique(std::vector<Sharding>& list, const Sharding& sharding) {
  if (std::find(list.begin(), list.end(), sharding) == list.end()) list.push_back(sharding);
}

double Wire(const Mesh& mesh, const Sharding& from, const Sharding& to) {
  return WireElements(mesh, Reshard(mesh, from, to));
}

double CostOf(const Mesh& mesh, const Sharding& copy, const std::optional<Sharding>& given,
              const Routes& routes) {
  double cost = given ? Wire(mesh, *given, copy) : 0;
  for (const Sharding& wanted : routes.wanted) {
    if (!given || wanted != *given) cost += Wire(mesh, copy, wanted);
  }
  if (routes.gradients.empty()) return cost;
  Sharding back = Complete(copy);
  for (const Sharding& gradient : routes.gradients) {
    std::vector<ReshardStep> steps =
        Reshard(mesh, gradient, Complete(copy), ReshardEnd::kPartialStays);
    cost += WireElements(mesh, steps);
    const Sharding& end = steps.empty() ? gradient : steps.back().after;
    for (size_t a = 0; a < kMaxAxes; ++a) {
      if (end.partial[a] != PartialState::kComplete) back.partial[a] = end.partial[a];
    }
  }
  return cost + Wire(mesh, back, Complete(given ? *given : copy));
}

}  // namespace

Routes RoutesOf(const std::vector<SegmentUse>& uses) {
  Routes routes;
  for (const SegmentUse& use : uses) {
    AddUnique(routes.wanted, use.wanted);
    if (use.gradient) AddUnique(routes.gradients, *use.gradient);
  }
  return routes;
}

Sharding Complete(Sharding sharding) {
  sharding.partial = {};
  return sharding;
}

Sharding ChooseCopy(const Mesh& mesh, const std::optional<Sharding>& given, const Routes& routes,
                    bool complete) {
  std::vector<Sharding> candidates;
  for (const Sharding& sharding : routes.wanted) AddUnique(candidates, Complete(sharding));
  if (given) AddUnique(candidates, complete ? Complete(*given) : *given);
  size_t best = 0;
  double least = 0;
  for (size_t c = 0; c < candidates.size() && candidates.size() > 1; ++c) {
    double cost = CostOf(mesh, candidates[c], given, routes);
    if (c > 0 && cost >= least) continue;
    best = c;
    least = cost;
  }
  return candidates[best];
}

const Sharding& CopyChoices::Of(const Mesh& mesh, const std::optional<Sharding>& given,
                                const Routes& routes, bool complete) {
  for (const Answer& known : known_) {
    if (known.complete == complete && known.given == given && known.routes == routes)
      return known.copy;
  }
  known_.push_back({given, routes, complete, ChooseCopy(mesh, given, routes, complete)});
  return known_.back().copy;
}

}  // namespace heddle
