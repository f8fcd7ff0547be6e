#include "learn/features.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace heddle {
namespace {

// Maps many orders of magnitude to about [0, 1].
float Scaled(double x) { return static_cast<float>(std::log10(std::max(x, 0.0) + 1e-5) / 5 + 1); }

bool Has(uint32_t set, size_t group) { return (set >> group & 1) != 0; }

// Seconds of a unit on one device of a group for a part of the batch, interpolated linearly between those of the graph.
double SecondsAt(const PlacementGraph& graph, size_t unit, size_t group, double part) {
  const float* at = &graph.places[(unit * graph.groups + group) * PlacementGraph::kPlaceFeatures];
  double whole = 1;
  for (size_t p = 0; p + 1 < PlacementGraph::kPlaceFeatures; ++p, whole /= 2) {
    bool last = p + 2 == PlacementGraph::kPlaceFeatures;
    if (part < whole / 2 && !last) continue;
    double slope = (at[p] - at[p + 1]) / (whole / 2);
    return std::max(at[p] - slope * (whole - part), at[p] * part / whole / 4);
  }
  return at[0] * part;
}

float Memory(const PlacementGraph& graph, size_t group) {
  return graph.group_sizes[group * PlacementGraph::kGroupFeatures + 1];
}
double Devices(const PlacementGraph& graph, size_t group) {
  return 4.0 * graph.group_sizes[group * PlacementGraph::kGroupFeatures];
}
double Parameters(const PlacementGraph& graph, size_t unit) {
  return graph.unit_sizes[unit * PlacementGraph::kSizeFeatures];
}

}  // namespace

double RoughPrices::SlowestLink(uint32_t set) const {
  double slowest = 1e9;
  for (size_t a = 0; a < graph_.groups; ++a) {
    if (!Has(set, a)) continue;
    if (Devices(graph_, a) > 1) {
      slowest = std::min<double>(slowest, graph_.links[a * graph_.groups + a]);
    }
    for (size_t b = 0; b < graph_.groups; ++b) {
      if (b != a && Has(set, b)) {
        slowest = std::min<double>(slowest, graph_.links[a * graph_.groups + b]);
      }
    }
  }
  return std::max(slowest, 1e-6);
}

RoughPrices::RoughPrices(const PlacementGraph& graph) : graph_(graph) {
  for (const Action& action : graph.actions) {
    if (sets_.contains(action.groups)) continue;
    OfSet of;
    of.slowest_link = SlowestLink(action.groups);
    for (size_t g = 0; g < graph.groups; ++g) {
      if (Has(action.groups, g)) of.devices += Devices(graph, g);
    }
    of.speed.assign(graph.groups, 0);
    for (size_t u = 0; u < graph.units; ++u) {
      double speed = 0, whole = 0;
      for (size_t g = 0; g < graph.groups; ++g) {
        if (!Has(action.groups, g)) continue;
        double part = 1 / of.devices;
        double each = Devices(graph, g) * part / std::max(1e-9, SecondsAt(graph, u, g, part));
        speed += each;
        of.speed[g] += each;
        whole = std::max(whole, SecondsAt(graph, u, g, 1));
      }
      of.seconds.push_back(1 / speed);
      of.whole_seconds.push_back(whole);
    }
    double sum = 0;
    for (double speed : of.speed) sum += speed;
    for (double& speed : of.speed) speed /= sum;
    sets_.emplace(action.groups, std::move(of));
  }
}

double RoughPrices::SyncOf(size_t unit, const Action& action, const OfSet& of) const {
  double bytes = Parameters(graph_, unit);
  auto ring = [&](double devices, double link) {
    return 2 * (devices - 1) / devices * bytes / link;
  };
  switch (action.way) {
    case Way::kReplicate:
    case Way::kServer:
      return ring(of.devices, of.slowest_link);
    case Way::kTensor: {
      auto machines = static_cast<double>(std::popcount(action.groups));
      return machines > 1 ? ring(machines, of.slowest_link) * machines / of.devices : 0;
    }
    case Way::kPipeline: {
      if (std::has_single_bit(action.groups)) return 0;
      double most = 0;
      for (size_t g = 0; g < graph_.groups; ++g) {
        double devices = Devices(graph_, g);
        if (!Has(action.groups, g) || devices < 2) continue;
        double link = std::max<double>(1e-6, graph_.links[g * graph_.groups + g]);
        most = std::max(most, ring(devices, link) * of.speed[g]);
      }
      return most;
    }
    case Way::kDuplicate:
      return 0;
  }
  return 0;
}

// The bytes of weights, gradients and two moments of a unit, relative to the memory of a group.
double RoughPrices::MemoryOf(size_t unit, const Action& action, const OfSet& of,
                             size_t group) const {
  double share = 1;
  if (action.way == Way::kTensor) {
    share = static_cast<double>(std::popcount(action.groups)) / of.devices;
  }
  if (action.way == Way::kPipeline) {
    share = std::has_single_bit(action.groups) ? 1 / of.devices : of.speed[group];
  }
  return 4 * Parameters(graph_, unit) * share / std::max(Memory(graph_, group), 1e-9F);
}

RoughCost RoughPrices::Of(const PlacementStrategy& strategy) const {
  RoughCost cost;
  std::vector<double> work(graph_.groups, 0), memory(graph_.groups, 0);
  auto action_of = [&](size_t unit) -> const Action& {
    return graph_
        .actions[static_cast<size_t>(strategy[static_cast<size_t>(graph_.decision_of[unit])])];
  };
  for (size_t u = 0; u < graph_.units; ++u) {
    const Action& action = action_of(u);
    const OfSet& of = sets_.at(action.groups);
    double seconds = action.way == Way::kDuplicate ? of.whole_seconds[u] : of.seconds[u];
    cost.serial += seconds;
    cost.sync += SyncOf(u, action, of);
    for (size_t g = 0; g < graph_.groups; ++g) {
      if (!Has(action.groups, g)) continue;
      work[g] += seconds;
      memory[g] += MemoryOf(u, action, of, g);
    }
    for (size_t v = u + 1; v < graph_.units; ++v) {
      double bytes = graph_.flows[u * graph_.units + v];
      const Action& reader = action_of(v);
      if (bytes == 0 || reader == action) continue;
      // Shards that are already on the reading device are not sent.
      double moved = reader.groups == action.groups ? 0.25 : 1;
      auto parallel = static_cast<double>(
          std::max(1, std::min(std::popcount(reader.groups), std::popcount(action.groups))));
      cost.transfer += 2 * moved * bytes / SlowestLink(reader.groups | action.groups) / parallel;
    }
  }
  cost.longest = *std::max_element(work.begin(), work.end());
  cost.memory = *std::max_element(memory.begin(), memory.end());
  return cost;
}

namespace {

void AddUnits(const PlacementGraph& graph, const PrefixState& state, Features& out) {
  auto next = static_cast<int>(state.prefix.size());
  float parts = 0;
  for (size_t u = 0; u < graph.units; ++u) parts += graph.decision_of[u] == next ? 1.0F : 0.0F;
  for (size_t u = 0; u < graph.units; ++u) {
    for (size_t f = 0; f < PlacementGraph::kUnitFeatures; ++f) {
      out.unit.push_back(Scaled(graph.unit_times[u * PlacementGraph::kUnitFeatures + f]));
    }
    for (size_t f = 0; f < PlacementGraph::kSizeFeatures; ++f) {
      out.unit.push_back(Scaled(graph.unit_sizes[u * PlacementGraph::kSizeFeatures + f]));
    }
    int decision = graph.decision_of[u];
    out.unit.push_back(decision < next ? 1 : 0);
    out.unit.push_back(decision == next ? 1 : 0);
    out.unit.push_back(decision == 0 ? 1 : 0);
    const Action& action =
        graph.actions[static_cast<size_t>(state.strategy[static_cast<size_t>(decision)])];
    for (size_t w = 0; w < kWayNames.size(); ++w) {
      out.unit.push_back(static_cast<size_t>(action.way) == w ? 1 : 0);
    }
    out.unit.push_back(state.value);
    out.next.push_back(decision == next ? 1 / parts : 0);
    for (size_t v = 0; v < graph.units; ++v) {
      double bytes = graph.flows[u * graph.units + v];
      int other = state.strategy[static_cast<size_t>(graph.decision_of[v])];
      out.flow.push_back(Scaled(bytes));
      out.flow.push_back(other == state.strategy[static_cast<size_t>(decision)] ? 1 : 0);
      out.flows.push_back(bytes > 0 ? 1 : 0);
    }
    for (size_t g = 0; g < graph.groups; ++g) {
      for (size_t f = 0; f < PlacementGraph::kPlaceFeatures; ++f) {
        out.place.push_back(
            Scaled(graph.places[(u * graph.groups + g) * PlacementGraph::kPlaceFeatures + f]));
      }
      out.place.push_back(Has(action.groups, g) ? 1 : 0);
    }
  }
}

void AddGroups(const PlacementGraph& graph, const PrefixState& state, Features& out) {
  for (size_t g = 0; g < graph.groups; ++g) {
    const float* sizes = &graph.group_sizes[g * PlacementGraph::kGroupFeatures];
    out.group.push_back(sizes[0]);
    out.group.push_back(Scaled(sizes[1]));
    out.group.push_back(sizes[2]);
    bool known = g < state.group_busy.size();
    out.group.push_back(known ? state.group_busy[g] : 0);
    out.group.push_back(known ? std::min(state.group_memory[g], 2.0F) : 0);
    out.group.push_back(state.value);
    for (size_t h = 0; h < graph.groups; ++h) {
      float width = graph.links[g * graph.groups + h];
      out.link.push_back(width);
      out.link.push_back(Scaled(width));
    }
  }
}

// Adds features for the similarity of an action to the current action of the decision, and to those of the units before
// and after it.
void AddLikeness(const PlacementGraph& graph, const PrefixState& state, int action, Features& out) {
  auto next = static_cast<int>(state.prefix.size());
  const Action& own = graph.actions[static_cast<size_t>(action)];
  float before = 0, after = 0, where = 0, count = 0;
  for (size_t u = 0; u < graph.units; ++u) {
    if (graph.decision_of[u] != next) continue;
    ++count;
    for (size_t v : {u - 1, u + 1}) {
      if (v >= graph.units || graph.decision_of[v] == next) continue;
      int other = state.strategy[static_cast<size_t>(graph.decision_of[v])];
      (v < u ? before : after) += other == action ? 1 : 0;
      where += graph.actions[static_cast<size_t>(other)].groups == own.groups ? 0.5F : 0;
    }
  }
  count = std::max(count, 1.0F);
  bool root = state.prefix.empty();
  out.action.push_back(state.strategy[static_cast<size_t>(next)] == action ? 1 : 0);
  out.action.push_back(!root && state.prefix.front() == action ? 1 : 0);
  out.action.push_back(root ? 0 : before / count);
  out.action.push_back(root ? 0 : after / count);
  out.action.push_back(root ? 0 : where / count);
}

void AddActions(const PlacementGraph& graph, const RoughPrices& prices, const PrefixState& state,
                Features& out) {
  auto total = [](const RoughCost& cost, double work) {
    return std::max(1e-9, work + cost.sync + cost.transfer);
  };
  RoughCost base = prices.Of(PlacementStrategy(graph.decisions, 0));
  RoughCost now = prices.Of(state.strategy);
  double unit = total(base, base.serial);
  auto ratio = [](double a, double b) {
    return static_cast<float>(std::clamp(std::log(a / b), -4.0, 4.0));
  };
  size_t next = state.prefix.size();
  for (size_t a = 0; a < graph.actions.size(); ++a) {
    for (size_t g = 0; g < graph.groups; ++g) {
      out.member.push_back(Has(graph.actions[a].groups, g) ? 1 : 0);
    }
    for (size_t w = 0; w < kWayNames.size(); ++w) {
      out.action.push_back(static_cast<size_t>(graph.actions[a].way) == w ? 1 : 0);
    }
    AddLikeness(graph, state, static_cast<int>(a), out);
    PlacementStrategy then = state.strategy;
    if (next == 0) then.assign(then.size(), static_cast<int>(a));
    then[next] = static_cast<int>(a);
    RoughCost cost = prices.Of(then);
    out.action.push_back(ratio(total(cost, cost.serial), unit));
    out.action.push_back(ratio(total(cost, cost.longest), unit));
    out.action.push_back(ratio(total(cost, cost.serial), total(now, now.serial)));
    out.action.push_back(ratio(total(cost, cost.longest), total(now, now.longest)));
    out.action.push_back(ratio(cost.serial + 1e-3 * unit, unit));
    out.action.push_back(ratio(cost.sync + 1e-3 * unit, unit));
    out.action.push_back(ratio(cost.transfer + 1e-3 * unit, unit));
    out.action.push_back(static_cast<float>(std::min(cost.memory, 2.0)));
  }
}

}  // namespace

Features FeaturesOf(const PlacementGraph& graph, const RoughPrices& prices,
                    const PrefixState& state) {
  HEDDLE_CHECK(state.prefix.size() < graph.decisions, "{} of {} decisions are made",
               state.prefix.size(), graph.decisions);
  Features out;
  out.units = graph.units;
  out.groups = graph.groups;
  out.actions = graph.actions.size();
  AddUnits(graph, state, out);
  AddGroups(graph, state, out);
  AddActions(graph, prices, state, out);
  HEDDLE_CHECK(out.unit.size() == graph.units * Features::kUnit &&
                   out.group.size() == graph.groups * Features::kGroup &&
                   out.action.size() == out.actions * Features::kAction,
               "features of {} units, {} groups", graph.units, graph.groups);
  return out;
}

}  // namespace heddle
