#include "search/prices/costs.h"

#include <algorithm>

#include "cluster/topology.h"
#include "plan/expand.h"
#include "search/prices/expansion.h"
#include "search/prices/strategies.h"

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
  for (int64_t d : DevicesOf(mesh)) {
    DeviceTypeId type = TypeOf(cluster, DeviceId{static_cast<int32_t>(d)});
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  }
  std::vector<ComputeCost> kinds;
  for (DeviceTypeId id : types) {
    const DeviceType& type = cluster.type(id);
    kinds.emplace_back(type, ConstantsFor(type, options.sim, DeviceCount(cluster)),
                       options.sim.stack, options.precision);
  }
  return kinds;
}

// Parts of a machine beside the mesh do the same on the same links.
Mesh WithNeighbours(const Cluster& cluster, const Mesh& mesh) {
  GroupSpan node = NodeOf(cluster, DeviceId{static_cast<int32_t>(mesh.first)});
  Mesh wide = mesh;
  if (mesh.named.empty() && mesh.axes.size() < kMaxSearchedAxes && node.count % mesh.size() == 0 &&
      node.count > mesh.size() && mesh.first == node.first.value) {
    wide.axes.insert(wide.axes.begin(), {"beside", node.count / mesh.size()});
  }
  return wide;
}

}  // namespace

ChoiceCost& ChoiceCost::operator+=(const ChoiceCost& other) {
  forward += other.forward;
  backward += other.backward;
  weight += other.weight;
  waited += other.waited;
  queued += other.queued;
  step_queued += other.step_queued;
  activations += other.activations;
  held += other.held;
  parameters += other.parameters;
  return *this;
}

ChoiceCost& ChoiceCost::operator*=(double factor) {
  for (double* number : {&forward, &backward, &weight, &waited, &queued, &step_queued, &activations,
                         &held, &parameters}) {
    *number *= factor;
  }
  return *this;
}

StageCosts::StageCosts(const Model& model, const Cluster& cluster, const Mesh& mesh,
                       CostOptions options)
    : model_(model),
      mesh_(mesh),
      options_(std::move(options)),
      rules_(options_.parts == 1 ? model.rules : MicroRules(model, options_.parts)),
      compute_(KindsOf(cluster, mesh, options_)),
      own_network_(options_.network != nullptr
                       ? nullptr
                       : std::make_unique<Network>(cluster, LinkEfficiency(cluster, options_.sim))),
      links_(own_network_ ? *own_network_ : *options_.network, WithNeighbours(cluster, mesh)),
      outer_axes_(WithNeighbours(cluster, mesh).axes.size() - mesh.axes.size()) {
  FindMoves();
}

void StageCosts::FindMoves() {
  moves_.assign(model_.graph.values.size(), false);
  for (size_t n = 0; n < model_.graph.nodes.size(); ++n) {
    const Node& node = model_.graph.nodes[n];
    NodeKernels kernels = KernelsOf(model_.graph, model_.flow, node, rules_[n],
                                    WholeBlocks(rules_[n]), options_.precision.gradients);
    has_kernels_.push_back(!kernels.forward.empty());
    bool moves = !kernels.forward.empty() && kernels.forward[0].kind == KernelKind::kTraffic;
    for (ValueId operand : node.operands) {
      moves = moves || (kernels.forward.empty() && moves_[operand.index()]);
    }
    for (ValueId result : node.results) moves_[result.index()] = moves;
  }
}

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
  return static_cast<double>(ElementCount(PaddedShape(mesh_, sharding)));
}

double StageCosts::FactorSeconds(NodeId id, const Strategy& strategy, size_t operand) const {
  const Rule& rule = rules_[id.index()];
  std::vector<Block> blocks = LocalBlocks(mesh_, rule, strategy, Position(mesh_.axes.size(), 0));
  Kernel kernel = FactorKernel(model_.graph, model_.flow, model_.graph.node(id), rule, blocks,
                               options_.precision.gradients, operand);
  double longest = 0;
  for (const ComputeCost& kind : compute_) longest = std::max(longest, kind.Of(kernel).total());
  return longest;
}

double StageCosts::MoveSeconds(double bytes) const {
  double longest = 0;
  for (const ComputeCost& kind : compute_) {
    longest = std::max(longest, kind.Traffic(bytes).total());
  }
  return longest;
}

double StageCosts::UpdateSeconds(double elements) const {
  double longest = 0;
  for (const ComputeCost& kind : compute_) {
    longest = std::max(longest, kind.Update(elements, options_.precision).total());
  }
  return longest;
}

double StageCosts::StepSeconds(const ReshardStep& step, int64_t element_bytes) {
  double bytes = static_cast<double>(element_bytes);
  if (IsLocal(step.kind)) return MoveSeconds(2 * bytes * Elements(step.after));
  double given = Elements(step.before);
  double padded = static_cast<double>(GroupSize(mesh_, step.axes)) * Elements(step.after);
  if (step.kind == StepKind::kReduceScatter) given = padded;
  return links_.Seconds(ToCollective(step.kind), step.axes << outer_axes_, bytes * given);
}

StageCosts::Way StageCosts::WayBetween(ShardingId from, ShardingId to, int64_t element_bytes,
                                       ReshardEnd end) {
  if (from == to) return {0, 0, 0, to};
  auto [at, fresh] = ways_.try_emplace({from, to, element_bytes, end});
  Way& way = at->second;
  if (!fresh) return way;
  if (!IsPossible(sharding(from), sharding(to))) {
    way = {0, kForbidden, 0, to};
    return way;
  }
  way.end = from;
  std::vector<ReshardStep> steps = Reshard(mesh_, sharding(from), sharding(to), end);
  for (const ReshardStep& step : steps) {
    double seconds = StepSeconds(step, element_bytes);
    (IsLocal(step.kind) ? way.local : way.traffic) += seconds;
    way.gathered = step.kind == StepKind::kAllGather ? seconds : 0;
  }
  if (!steps.empty()) way.end = Number(steps.back().after);
  return way;
}

double StageCosts::RouteSeconds(ShardingId given, const std::vector<Use>& uses,
                                int64_t element_bytes) {
  auto seconds = [&](ShardingId from, ShardingId to) {
    return WayBetween(from, to, element_bytes).seconds();
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
      cost += way.seconds();
      partial |= sharding(way.end).partial_axes();
      back = true;
    }
    if (back) cost += seconds(Partial(copy, partial), Complete(given));
    least = std::min(least, cost);
  }
  return least;
}

bool StageCosts::HasGradient(NodeId id) const {
  const std::vector<ValueId>& results = model_.graph.node(id).results;
  return std::any_of(results.begin(), results.end(),
                     [&](ValueId result) { return model_.flow.needed[result.index()]; });
}

double StageCosts::Repeats(NodeId node) const {
  return model_.once[node.index()] ? 1 / options_.microbatches : 1;
}

// If the stack fuses neighbouring kernels that only move memory: the costs as if all of them were
// in one segment.
void StageCosts::Join(const Graph& graph, const Node& node, const Rule& rule,
                      std::span<const Block> blocks, NodeKernels& kernels) const {
  if (kernels.forward.empty() || kernels.forward[0].kind != KernelKind::kTraffic) return;
  if (options_.sim.stack.fused_loss && !rule.scratch.empty()) {
    double once = 2 * ScratchBytes(rule, blocks);
    for (Kernel& kernel : kernels.forward) kernel.bytes -= once;
    for (Kernel& kernel : kernels.backward) kernel.bytes -= 2 * once;
  }
  for (size_t o = 0; o < node.operands.size(); ++o) {
    if (!moves_[node.operands[o].index()]) continue;
    double bytes = OperandBytes(graph, node, rule, blocks, o);
    for (std::vector<Kernel>* half : {&kernels.forward, &kernels.backward}) {
      for (Kernel& kernel : *half) kernel.bytes = std::max(0.0, kernel.bytes - bytes);
    }
  }
}

HalfTimes StageCosts::KernelSeconds(const Graph& graph, const GradientFlow& flow, const Node& node,
                                    const Rule& rule, const Strategy& strategy) const {
  std::vector<Block> blocks = LocalBlocks(mesh_, rule, strategy, Position(mesh_.axes.size(), 0));
  NodeKernels kernels = KernelsOf(graph, flow, node, rule, blocks, options_.precision.gradients);
  bool fused = options_.sim.stack.fused_elementwise && &graph == &model_.graph;
  bool joined = false;
  if (fused) {
    Join(graph, node, rule, blocks, kernels);
    for (ValueId operand : node.operands) joined = joined || moves_[operand.index()];
    joined = joined && !kernels.forward.empty() && kernels.forward[0].kind == KernelKind::kTraffic;
  }
  HalfTimes longest{0, 0, 0};
  for (const ComputeCost& kind : compute_) {
    auto seconds = [&](const std::vector<Kernel>& half, bool join) {
      double sum = 0;
      for (const Kernel& kernel : half) {
        sum += (join ? kind.Joined(kernel) : kind.Of(kernel)).total();
      }
      return sum;
    };
    HalfTimes times{seconds(kernels.forward, joined), seconds(kernels.backward, joined),
                    seconds(kernels.weight, false)};
    if (times.forward + times.backward + times.weight >
        longest.forward + longest.backward + longest.weight) {
      longest = times;
    }
  }
  return longest;
}

HalfTimes StageCosts::ExpansionSeconds(NodeId id, const Strategy& strategy, double* traffic) {
  ExpandedNode expanded = ExpandNode(model_, rules_[id.index()], id, mesh_, strategy);
  HalfTimes sum{0, 0, 0};
  for (size_t n = 0; n < expanded.graph.nodes.size(); ++n) {
    HalfTimes one = KernelSeconds(expanded.graph, expanded.flow, expanded.graph.nodes[n],
                                  expanded.rules[n], expanded.strategies[n]);
    sum.forward += one.forward;
    sum.backward += one.backward;
    sum.weight += one.weight;
  }
  for (const ExpandedValue& value : expanded.values) {
    std::vector<Use> uses;
    for (const auto& [wanted, gradient] : value.uses) {
      uses.push_back({Number(wanted), gradient ? Number(*gradient) : -1});
    }
    *traffic += RouteSeconds(Number(value.given), uses, value.element_bytes);
  }
  return sum;
}

ChoiceCost StageCosts::OfNode(NodeId id, const Strategy& strategy, const KeptParts& kept) {
  const Node& node = model_.graph.node(id);
  const Rule& rule = rules_[id.index()];
  ChoiceCost cost;
  HalfTimes times = IsExpanded(model_, id, strategy, options_.local_statistics)
                        ? ExpansionSeconds(id, strategy, &cost.queued)
                        : KernelSeconds(model_.graph, model_.flow, node, rule, strategy);
  double repeats = Repeats(id);
  cost.forward = repeats * times.forward;
  if (HasGradient(id)) {  // otherwise lowering runs no backward
    cost.backward = repeats * times.backward;
    cost.weight = repeats * times.weight;
  }
  cost.queued *= repeats;
  if (kept.recomputed) cost.backward += cost.forward;
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
  if (!kept.recomputed && KeptBy(node, rule, model_.flow).any) {
    std::vector<Block> blocks = LocalBlocks(mesh_, rule, strategy, Position(mesh_.axes.size(), 0));
    for (const KeepTerm& term : rule.keep.extra) {
      double points = term.bytes;
      for (int f : term.factors) {
        points *= static_cast<double>(blocks[static_cast<size_t>(f)].size());
      }
      held += points;
    }
  }
  (model_.once[id.index()] ? cost.held : cost.activations) = held;
  return cost;
}

ChoiceCost StageCosts::OfParameter(ValueId value, ShardingId stored, AxisMask reduced) {
  double elements = Elements(sharding(stored));
  ChoiceCost cost;
  if (!model_.flow.needed[value.index()]) {
    cost.held = elements * static_cast<double>(SizeOf(model_.graph.value(value).type.dtype));
    return cost;
  }
  cost.parameters = elements;
  double gradient = static_cast<double>(SizeOf(options_.precision.gradients));
  cost.step_queued = links_.BandwidthSeconds(CollectiveKind::kAllReduce, reduced << outer_axes_,
                                             elements * gradient);
  return cost;
}

}  // namespace heddle
