#include "search/costs.h"

#include <algorithm>

#include "cluster/topology.h"
#include "search/expansion.h"
#include "search/strategies.h"

namespace heddle {
namespace {

void Append(std::string& key, int64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string KeyOf(const Sharding& sharding) {
  std::string key;
  for (const ShardedDim& dim : sharding.dims) {
    Append(key, static_cast<int64_t>(dim.terms.size()));
    for (const Parts& term : dim.terms) {
      Append(key, static_cast<int64_t>(term.size()));
      for (const Part& part : term) {
        Append(key, part.size);
        Append(key, part.axes);
      }
    }
  }
  for (PartialState state : sharding.partial) key.push_back(static_cast<char>(state));
  return key;
}

bool IsPossible(const Sharding& from, const Sharding& to) {
  AxisMask split = from.split_axes();
  for (size_t a = 0; a < kMaxAxes; ++a) {
    if (to.partial[a] == PartialState::kComplete || to.partial[a] == from.partial[a]) continue;
    bool whole = from.partial[a] == PartialState::kComplete && !Contains(split, a);
    if (!whole || to.partial[a] == PartialState::kMax) return false;
  }
  return true;
}

std::vector<ComputeCost> KindsOf(const Cluster& cluster, const Mesh& mesh,
                                 const CostOptions& options) {
  std::vector<DeviceTypeId> types;
  for (int64_t d = mesh.first; d < mesh.first + mesh.size(); ++d) {
    DeviceTypeId type = TypeOf(cluster, DeviceId{static_cast<int32_t>(d)});
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  }
  std::vector<ComputeCost> kinds;
  for (DeviceTypeId id : types) {
    const DeviceType& type = cluster.type(id);
    kinds.emplace_back(type, ConstantsFor(type, options.sim), options.sim.stack, options.precision);
  }
  return kinds;
}

}  // namespace

StageCosts::StageCosts(const Model& model, const Cluster& cluster, const Mesh& mesh,
                       CostOptions options)
    : model_(model),
      mesh_(mesh),
      options_(std::move(options)),
      rules_(options_.microbatches == 1 ? model.rules : MicroRules(model, options_.microbatches)),
      compute_(KindsOf(cluster, mesh, options_)),
      links_(cluster, mesh, options_.sim) {}

size_t StageCosts::WayHash::operator()(const WayKey& key) const {
  uint64_t hash = static_cast<uint64_t>(key.from) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ static_cast<uint64_t>(key.to)) * 0xbf58476d1ce4e5b9u;
  hash ^= static_cast<uint64_t>(key.element_bytes) << 3 ^ static_cast<uint64_t>(key.end);
  return static_cast<size_t>(hash ^ hash >> 31);
}

ShardingId StageCosts::Number(const Sharding& sharding) {
  auto [at, fresh] =
      numbers_.try_emplace(KeyOf(sharding), static_cast<ShardingId>(shardings_.size()));
  if (fresh) shardings_.push_back(sharding);
  return at->second;
}

ShardingId StageCosts::Complete(ShardingId id) { return Partial(id, 0); }

ShardingId StageCosts::Partial(ShardingId id, AxisMask axes) {
  auto [at, fresh] = partials_.try_emplace({id, axes}, -1);
  if (!fresh) return at->second;
  Sharding partial = sharding(id);
  for (size_t a = 0; a < kMaxAxes; ++a) {
    partial.partial[a] = Contains(axes, a) ? PartialState::kSum : PartialState::kComplete;
  }
  return at->second = Number(partial);
}

double StageCosts::Elements(const Sharding& sharding) const {
  double elements = 1;
  for (int64_t size : PaddedShape(mesh_, sharding)) elements *= static_cast<double>(size);
  return elements;
}

double StageCosts::StepSeconds(const ReshardStep& step, int64_t element_bytes) {
  double bytes = static_cast<double>(element_bytes);
  if (IsLocal(step.kind)) {
    double longest = 0;
    for (const ComputeCost& kind : compute_) {
      longest = std::max(longest, kind.Traffic(2 * bytes * Elements(step.after)).total());
    }
    return longest;
  }
  double given = Elements(step.before);
  double padded = static_cast<double>(GroupSize(mesh_, step.axes)) * Elements(step.after);
  if (step.kind == StepKind::kReduceScatter) given = padded;
  return links_.Seconds(ToCollective(step.kind), step.axes, bytes * given);
}

StageCosts::Way StageCosts::WayBetween(ShardingId from, ShardingId to, int64_t element_bytes,
                                       ReshardEnd end) {
  if (from == to) return {0, to};
  auto [at, fresh] = ways_.try_emplace({from, to, element_bytes, end});
  Way& way = at->second;
  if (!fresh) return way;
  if (!IsPossible(sharding(from), sharding(to))) {
    way = {kForbidden, to};
    return way;
  }
  way.end = from;
  std::vector<ReshardStep> steps = Reshard(mesh_, sharding(from), sharding(to), end);
  for (const ReshardStep& step : steps) way.seconds += StepSeconds(step, element_bytes);
  if (!steps.empty()) way.end = Number(steps.back().after);
  return way;
}

double StageCosts::RouteSeconds(ShardingId given, const std::vector<Use>& uses,
                                int64_t element_bytes) {
  auto seconds = [&](ShardingId from, ShardingId to) {
    return WayBetween(from, to, element_bytes).seconds;
  };
  std::vector<ShardingId> copies = {given};
  for (const Use& use : uses) copies.push_back(Complete(use.wanted));
  double least = kForbidden;
  for (ShardingId copy : copies) {
    double cost = seconds(given, copy);
    AxisMask partial = 0;
    bool back = false;
    for (const Use& use : uses) {
      if (use.wanted != given) cost += seconds(copy, use.wanted);
      if (use.gradient < 0) continue;
      Way way = WayBetween(use.gradient, Complete(copy), element_bytes, ReshardEnd::kPartialStays);
      cost += way.seconds;
      partial |= sharding(way.end).partial_axes();
      back = true;
    }
    if (back) cost += seconds(Partial(copy, partial), Complete(given));
    least = std::min(least, cost);
  }
  return least;
}

double StageCosts::Repeats(NodeId node) const {
  return model_.once[node.index()] ? 1 : static_cast<double>(options_.microbatches);
}

double StageCosts::KernelSeconds(const Graph& graph, const GradientFlow& flow, const Node& node,
                                 const Rule& rule, const Strategy& strategy) const {
  std::vector<Block> blocks = LocalBlocks(mesh_, rule, strategy, Position(mesh_.axes.size(), 0));
  NodeKernels kernels = KernelsOf(graph, flow, node, rule, blocks, options_.precision.gradients);
  double longest = 0;
  for (const ComputeCost& kind : compute_) {
    double seconds = 0;
    for (const std::vector<Kernel>* half : {&kernels.forward, &kernels.backward, &kernels.weight}) {
      for (const Kernel& kernel : *half) seconds += kind.Of(kernel).total();
    }
    longest = std::max(longest, seconds);
  }
  return longest;
}

double StageCosts::ExpansionSeconds(NodeId id, const Strategy& strategy) {
  ExpandedNode expanded = ExpandNode(model_, rules_[id.index()], id, mesh_, strategy);
  double seconds = 0;
  for (size_t n = 0; n < expanded.graph.nodes.size(); ++n) {
    seconds += KernelSeconds(expanded.graph, expanded.flow, expanded.graph.nodes[n],
                             expanded.rules[n], expanded.strategies[n]);
  }
  for (const ExpandedValue& value : expanded.values) {
    std::vector<Use> uses;
    for (const auto& [wanted, gradient] : value.uses) {
      uses.push_back({Number(wanted), gradient ? Number(*gradient) : -1});
    }
    seconds += RouteSeconds(Number(value.given), uses, value.element_bytes);
  }
  return seconds;
}

Cost StageCosts::OfNode(NodeId id, const Strategy& strategy, const KeptParts& kept) {
  const Node& node = model_.graph.node(id);
  const Rule& rule = rules_[id.index()];
  Cost cost;
  cost.seconds =
      Repeats(id) * (IsExpanded(rule, strategy)
                         ? ExpansionSeconds(id, strategy)
                         : KernelSeconds(model_.graph, model_.flow, node, rule, strategy));
  auto bytes = [&](const Sharding& sharding, ValueId value) {
    return Elements(sharding) * static_cast<double>(SizeOf(model_.graph.value(value).type.dtype));
  };
  double held = 0;
  for (size_t o : kept.operands) {
    held += bytes(OperandSharding(mesh_, rule, strategy, o), node.operands[o]);
  }
  for (size_t r : kept.results) {
    held += bytes(ResultSharding(mesh_, rule, strategy, r), node.results[r]);
  }
  if (KeptBy(node, rule, model_.flow).any) {
    std::vector<Block> blocks = LocalBlocks(mesh_, rule, strategy, Position(mesh_.axes.size(), 0));
    for (const KeepTerm& term : rule.keep.extra) {
      double points = term.bytes;
      for (int f : term.factors)
        points *= static_cast<double>(blocks[static_cast<size_t>(f)].size());
      held += points;
    }
  }
  cost.bytes = held * (model_.once[id.index()] ? 1 : options_.in_flight);
  return cost;
}

Cost StageCosts::OfParameter(ValueId value, ShardingId stored, AxisMask reduced) {
  const Precision& precision = options_.precision;
  double elements = Elements(sharding(stored));
  double weight = static_cast<double>(SizeOf(model_.graph.value(value).type.dtype));
  Cost cost;
  cost.bytes = elements * weight;
  if (!model_.flow.needed[value.index()]) return cost;
  double gradient = static_cast<double>(SizeOf(precision.gradients));
  cost.bytes += elements * (gradient + 2 * static_cast<double>(SizeOf(precision.moments)));
  if (precision.master != precision.compute) {
    cost.bytes += elements * static_cast<double>(SizeOf(precision.master));
  }
  cost.seconds = links_.BandwidthSeconds(CollectiveKind::kAllReduce, reduced, elements * gradient);
  double longest = 0;
  for (const ComputeCost& kind : compute_) {
    Terms update = kind.Update(elements, precision);
    update[Term::kLaunch] = 0;  // of a group of parameters
    longest = std::max(longest, update.total());
  }
  cost.seconds += longest;
  return cost;
}

}  // namespace heddle
