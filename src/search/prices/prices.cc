#include "search/prices/prices.h"

#include <algorithm>
#include <limits>

#include "plan/axes.h"
#include "search/solver/eliminate.h"

namespace heddle {
namespace {

// A short model that leaves nothing out.
ShortModel Unshortened(const Model& model) {
  ShortModel same;
  same.model = model;
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
    same.nodes.push_back({NodeId::FromIndex(n)});
  }
  for (size_t b = 0; b < model.blocks.size(); ++b) same.blocks.push_back({NodeId::FromIndex(b)});
  same.left_out.assign(model.folding.chains.size(), 0);
  return same;
}

// Makes the value of a key once, outside the lock. Neighbouring configurations share keys and are
// examined by several threads at a time; all but the first thread wait.
template <typename Map, typename Make>
auto& Cached(std::mutex& mutex, Map& map, const PriceKey& key, const Make& make) {
  std::unique_lock lock(mutex);
  auto& entry = map[key];  // references to map entries stay valid
  lock.unlock();
  std::call_once(entry.once, [&] { entry.made = make(); });
  return entry.made;
}

}  // namespace

PriceOptions PriceOptionsOf(const SearchProblem& problem, ProblemSolver solver) {
  return {PrecisionOf(problem), problem.sim, problem.whole, std::move(solver),
          problem.local_batch_statistics};
}

Mesh MeshOf(const std::vector<int64_t>& axes) {
  Mesh mesh;
  for (size_t a = 0; a < axes.size(); ++a) {
    mesh.axes.push_back(FreeAxis(a, axes.size(), axes[a]));
  }
  return mesh;
}

Prices::Prices(const Model& model, const Cluster& cluster, PriceOptions options)
    : model_(model),
      cluster_(cluster),
      options_(std::move(options)),
      short_(options_.solver ? Unshortened(model) : Shorten(model)),
      units_(UnitsOf(model).begins),
      network_(cluster, LinkEfficiency(cluster, options_.sim)) {}

// The conversions between shardings and the choices of nodes, which do not depend on the policy.
struct Prices::StageMaker {
  StageMaker(const Model& model, const Cluster& cluster, const Mesh& mesh, CostOptions options)
      : costs(model, cluster, mesh, std::move(options)), maker(costs) {}
  std::mutex mutex;
  StageCosts costs;
  ProblemMaker maker;
};

Prices::~Prices() = default;

namespace {

// With many micro-batches, work that is done once per step is negligible.
PriceKey OfMany(PriceKey key, double many) {
  if (key.microbatches >= many) key.microbatches = std::numeric_limits<double>::infinity();
  return key;
}

// For lower bounds, work done once per step counts only where there is one micro-batch. Thus many
// keys become equal.
PriceKey OfLeast(PriceKey key) { return OfMany(std::move(key), 2); }

}  // namespace

const Priced* Prices::Of(PriceKey key) {
  constexpr double kManyMicrobatches = 8;
  key = OfMany(std::move(key), kManyMicrobatches);
  return Cached(mutex_, made_, key, [&] { return Make(key); }).get();
}

const LeastTime* Prices::LeastTimeOf(PriceKey key) {
  key = OfLeast(std::move(key));
  key.per_byte = key.per_parameter = 0;
  return Cached(mutex_, times_, key, [&] { return MakeLeastTime(key); }).get();
}

// The policies are those of the search problem, so they are no part of the key.
const LeastMemory* Prices::LeastMemoryOf(PriceKey key,
                                         const std::vector<RecomputePolicy>& policies) {
  key = OfLeast(std::move(key));
  key.per_byte = key.per_parameter = 0;
  key.recompute = policies.front();
  return Cached(mutex_, memories_, key, [&] { return MakeLeastMemory(key, policies); }).get();
}

const RangeFloors* Prices::LeastPricedOf(PriceKey key,
                                         const std::vector<RecomputePolicy>& policies) {
  key = OfLeast(std::move(key));
  key.recompute = policies.front();
  return Cached(mutex_, least_priced_, key, [&] { return MakeLeastPriced(key, policies); }).get();
}

std::shared_ptr<const StageProblem> Prices::StageFor(PriceKey key) {
  key.per_byte = key.per_parameter = 0;
  return Cached(mutex_, stages_, key, [&] { return MakeStage(key); });
}

CostOptions Prices::CostsFor(int64_t parts, double microbatches) const {
  CostOptions options;
  options.parts = parts;
  options.microbatches = microbatches;
  options.precision = options_.precision;
  options.sim = options_.sim;
  options.network = &network_;
  options.tied_alike = true;
  options.whole = options_.whole;
  options.local_statistics = options_.local_statistics;
  return options;
}

std::shared_ptr<const StageProblem> Prices::MakeStage(const PriceKey& key) {
  PriceKey place = key;
  place.recompute = RecomputePolicy::kNone;
  StageMaker* maker =
      Cached(mutex_, stage_makers_, place, [&] {
        int64_t parts = std::max<int64_t>(1, BatchSize(model_)) / key.samples;
        return std::make_unique<StageMaker>(short_.model, cluster_, MeshOf(key.axes),
                                            CostsFor(parts, key.microbatches));
      }).get();
  std::lock_guard lock(maker->mutex);
  auto stage = std::make_shared<StageProblem>(
      maker->maker.Of(0, static_cast<int>(short_.model.blocks.size()), key.recompute));
  for (VariableChain& chain : stage->problem.chains) {
    // The problem's chains are in the order of the model's, without those that are too short.
    const Model& small = short_.model;
    for (size_t c = 0; c < small.folding.chains.size(); ++c) {
      if (short_.left_out[c] == 0 || chain.copies.size() != kExplicitCopies) continue;
      NodeId maker = stage->makers[static_cast<size_t>(chain.copies[0][0])];
      const std::vector<NodeId>& first = small.folding.chains[c].copies[0];
      if (std::find(first.begin(), first.end(), maker) == first.end()) continue;
      chain.left_out = short_.left_out[c];
      chain.repeated = kExplicitCopies - 2;
    }
  }
  return stage;
}

std::optional<Solution> Prices::Solve(const Problem& problem, const Weights& weights) const {
  std::optional<Solution> solution =
      options_.solver ? options_.solver(problem, weights) : SolveFolded(problem, weights);
  if (solution && solution->objective == kForbidden) return std::nullopt;
  return solution;
}

std::unique_ptr<Priced> Prices::Make(const PriceKey& key) {
  auto priced = std::make_unique<Priced>();
  priced->mesh = MeshOf(key.axes);
  priced->stage = StageFor(key);
  // `bytes` are those of activations. Parameters are converted to bytes so that they have the key's
  // price.
  StageScale scale;
  scale.microbatches = key.microbatches;
  if (key.per_byte > 0) scale.bytes_per_parameter = key.per_parameter / key.per_byte;
  std::optional<Solution> solution = Solve(Weighed(*priced->stage, scale), {1, 1, key.per_byte});
  if (!solution) return nullptr;
  priced->solution = std::move(*solution);
  priced->blocks = BlocksOf(*priced->stage, priced->solution);
  for (const ChoiceCost& block : priced->blocks) priced->total += block;
  return priced;
}

std::vector<ChoiceCost> Prices::BlocksOf(const StageProblem& stage,
                                         const Solution& solution) const {
  BlockCosts by_block = CostsByBlock(short_.model, stage, solution);
  std::vector<ChoiceCost> blocks;
  for (const ShortNode& at : short_.blocks) {
    const std::vector<ChoiceCost>& from = at.chain < 0 ? by_block.blocks : by_block.left_out;
    blocks.push_back(from[at.node.index()]);
  }
  return blocks;
}

std::vector<Strategy> Prices::StrategiesOf(const Priced& priced) const {
  std::vector<Strategy> explicit_nodes =
      heddle::StrategiesOf(*priced.stage, priced.solution.choice);
  std::vector<Strategy> strategies;
  const std::vector<VariableChain>& chains = priced.stage->problem.chains;
  // Per variable of a repeated copy: its chain and its index in the copy.
  std::map<int, std::pair<size_t, size_t>> places;
  for (size_t c = 0; c < chains.size(); ++c) {
    if (chains[c].left_out == 0) continue;
    const std::vector<int>& copy = chains[c].copies[chains[c].repeated];
    for (size_t i = 0; i < copy.size(); ++i) places[copy[i]] = {c, i};
  }
  for (const ShortNode& at : short_.nodes) {
    if (!at.node.valid()) {
      strategies.emplace_back(priced.mesh.axes.size(), kReplicate);
      continue;
    }
    const NodeVariable& node = priced.stage->nodes[at.node.index()];
    auto place = places.find(node.variable);
    if (at.chain < 0 || place == places.end()) {
      strategies.push_back(explicit_nodes[at.node.index()]);
      if (strategies.back().empty()) strategies.back().assign(priced.mesh.axes.size(), kReplicate);
      continue;
    }
    auto [chain, index] = place->second;
    size_t x =
        static_cast<size_t>(priced.solution.left_out[chain][static_cast<size_t>(at.copy)][index]);
    if (!node.follows.empty()) x = static_cast<size_t>(node.follows[x]);
    strategies.push_back(node.choices->strategies[x]);
  }
  return strategies;
}

}  // namespace heddle
