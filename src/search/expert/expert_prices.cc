#include "search/expert/expert_prices.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "plan/expert_strategies.h"
#include "plan/precision.h"
#include "search/solver/eliminate.h"

namespace heddle {
namespace {

ShortModel ShortOfType(const SearchProblem& problem) {
  ShortModel small = Shorten(problem.model);
  small.model = WithComputeType(std::move(small.model), problem.precision);
  return small;
}

// Elements of parameters that a block reads, on a device: those split over the expert axis, and
// others.
struct BlockParameters {
  double dense = 0, expert = 0;
};

BlockParameters ParametersOf(const Model& model, const ModelBlock& block, const Mesh& mesh,
                             const std::vector<Strategy>& strategies, int expert_axis) {
  BlockParameters out;
  std::set<ValueId> seen;
  std::vector<NodeId> nodes = block.nodes;
  std::vector<NodeId> side = SideNodesOf(model, nodes);
  nodes.insert(nodes.end(), side.begin(), side.end());
  for (NodeId id : nodes) {
    const std::vector<ValueId>& operands = model.graph.node(id).operands;
    for (size_t o = 0; o < operands.size(); ++o) {
      if (model.graph.value(operands[o]).kind != ValueKind::kParameter) continue;
      if (!model.flow.needed[operands[o].index()] || !seen.insert(operands[o]).second) continue;
      Sharding sharding = OperandSharding(mesh, model.rules[id.index()], strategies[id.index()], o);
      double elements = 1;
      for (int64_t n : LocalShape(mesh, sharding, Position(mesh.axes.size(), 0))) {
        elements *= static_cast<double>(n);
      }
      bool spread =
          expert_axis >= 0 && Contains(sharding.split_axes(), static_cast<size_t>(expert_axis));
      (spread ? out.expert : out.dense) += elements;
    }
  }
  return out;
}

}  // namespace

// For one key: the strategies, and what all recomputation policies share.
struct ExpertPrices::MeshPrices {
  std::mutex mutex;
  std::vector<Strategy> strategies;
  std::unique_ptr<StageCosts> costs;  // null: the model does not allow the degrees
  std::unique_ptr<ProblemMaker> maker;
  std::vector<BlockParameters> parameters;  // per block of the short model
  double microbatches = 1;
  PerRecomputePolicy<bool> tried = {};
  PerRecomputePolicy<std::unique_ptr<ExpertSums>> sums;  // by policy
};

ExpertPrices::ExpertPrices(const SearchProblem& problem)
    : problem_(problem),
      precision_(PrecisionOf(problem)),
      short_(ShortOfType(problem)),
      network_(problem.cluster, LinkEfficiency(problem.cluster, problem.sim)) {
  for (const ModelBlock& block : problem.model.blocks) is_layer_.push_back(block.chain >= 0);
}

ExpertPrices::~ExpertPrices() = default;

// The mesh has as many data ranks as experts are spread over; further data ranks do the same.
std::unique_ptr<ExpertPrices::MeshPrices> ExpertPrices::MakePrices(const ExpertKey& key) const {
  auto mesh_prices = std::make_unique<MeshPrices>();
  const Model& model = short_.model;
  Degrees degrees;
  degrees.dp = degrees.ep = key.ep;
  degrees.cp = key.cp;
  degrees.tp = key.tp;
  degrees.sp = key.sp;
  int64_t batch = std::max<int64_t>(1, BatchSize(model));
  degrees.microbatches = std::max<int64_t>(1, batch / (key.samples * key.ep));
  CostOptions options;
  options.parts = degrees.microbatches;
  options.microbatches = mesh_prices->microbatches = key.microbatches;
  options.precision = precision_;
  options.sim = problem_.sim;
  options.network = &network_;
  options.tied_alike = true;
  options.local_statistics = problem_.local_batch_statistics;
  options.only = &mesh_prices->strategies;
  try {
    Mesh mesh = ExpertMesh(degrees);
    std::vector<int> stage_of;
    for (int block : model.block_of) stage_of.push_back(block < 0 ? -1 : 0);
    mesh_prices->strategies = ExpertStrategies(model, degrees, mesh, stage_of);
    for (const ModelBlock& block : model.blocks) {
      mesh_prices->parameters.push_back(
          ParametersOf(model, block, mesh, mesh_prices->strategies, key.ep > 1 ? 0 : -1));
    }
    mesh_prices->costs =
        std::make_unique<StageCosts>(model, problem_.cluster, mesh, std::move(options));
    mesh_prices->maker = std::make_unique<ProblemMaker>(*mesh_prices->costs);
  } catch (const InputError&) {
    mesh_prices->costs.reset();
  }
  return mesh_prices;
}

std::unique_ptr<ExpertSums> ExpertPrices::Make(MeshPrices& mesh_prices,
                                               RecomputePolicy recompute) const {
  const Model& model = short_.model;
  StageProblem stage = mesh_prices.maker->Of(0, static_cast<int>(model.blocks.size()), recompute);
  StageScale scale;
  scale.microbatches = mesh_prices.microbatches;
  std::optional<Solution> solution = SolveFolded(Weighed(stage, scale));
  if (!solution || solution->objective == kForbidden) return nullptr;
  std::vector<ChoiceCost> blocks = CostsByBlock(model, stage, *solution).blocks;
  auto sums = std::make_unique<ExpertSums>();
  std::vector<std::vector<double>*> all = {&sums->forward, &sums->backward,    &sums->weight,
                                           &sums->held,    &sums->activations, &sums->dense,
                                           &sums->expert,  &sums->layers};
  for (std::vector<double>* of : all) of->push_back(0);
  for (size_t b = 0; b < short_.blocks.size(); ++b) {
    size_t at = short_.blocks[b].node.index();
    const ChoiceCost& cost = blocks[at];
    const BlockParameters& parameters = mesh_prices.parameters[at];
    // Traffic between nodes is assigned to both directions in equal parts.
    double traffic = (cost.waited + cost.queued) / 2;
    std::array<double, 8> numbers = {cost.forward + traffic,
                                     cost.backward + traffic,
                                     cost.weight,
                                     cost.held,
                                     cost.activations,
                                     parameters.dense,
                                     parameters.expert,
                                     is_layer_[b] ? 1.0 : 0.0};
    for (size_t i = 0; i < numbers.size(); ++i) all[i]->push_back(all[i]->back() + numbers[i]);
    double elements = parameters.dense + parameters.expert;
    sums->most_activations = std::max(sums->most_activations, cost.activations);
    sums->most_parameters = std::max(sums->most_parameters, elements);
    if (!is_layer_[b]) sums->outside_layers += elements;
  }
  return sums;
}

const ExpertSums* ExpertPrices::Of(const ExpertKey& key, RecomputePolicy recompute) {
  MeshPrices* mesh_prices = nullptr;
  {
    std::lock_guard lock(mutex_);
    auto found = mesh_prices_.find(key);
    if (found != mesh_prices_.end()) mesh_prices = found->second.get();
  }
  if (mesh_prices == nullptr) {
    std::unique_ptr<MeshPrices> made = MakePrices(key);
    std::lock_guard lock(mutex_);
    mesh_prices = mesh_prices_.try_emplace(key, std::move(made)).first->second.get();
  }
  if (!mesh_prices->costs) return nullptr;
  std::lock_guard lock(mesh_prices->mutex);
  auto policy = static_cast<size_t>(recompute);
  if (!mesh_prices->tried[policy]) {
    mesh_prices->sums[policy] = Make(*mesh_prices, recompute);
    mesh_prices->tried[policy] = true;
  }
  return mesh_prices->sums[policy].get();
}

}  // namespace heddle
