#include "search/prices/prices.h"

#include <algorithm>
#include <limits>
#include <set>

#include "plan/axes.h"
#include "search/solver/eliminate.h"

namespace heddle {
namespace {

// Of the activations that rules say are kept, what surely is: views of one storage may be kept once.
constexpr double kSureToKeep = 1;

// As a short model with nothing left out.
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

// What is made for a key, once; made outside the lock. Configurations next to each other share keys, and are looked at by
// several threads at a time: all but the first thread wait.
template <typename Map, typename Make>
auto& Cached(std::mutex& mutex, Map& map, const PriceKey& key, const Make& make) {
  std::unique_lock lock(mutex);
  auto& entry = map[key];  // does not move
  lock.unlock();
  std::call_once(entry.once, [&] { entry.made = make(); });
  return entry.made;
}

}  // namespace

double LeastRoom::Policies::At(double per_byte) const {
  double of = kForbidden;
  for (size_t p = 0; p < added.size(); ++p) of = std::min(of, added[p] + per_byte * kept[p]);
  return of;
}

double LeastRoom::Policies::least() const { return *std::min_element(kept.begin(), kept.end()); }

void FindFewest(LeastTime& time) {
  std::vector<double> alone;
  for (int u = 0; u < time.ranges.units(); ++u) alone.push_back(time.ranges.Alone(u, u + 1));
  time.fewest_seconds = FewestUnits(UnitSums(alone));
  time.fewest_parameters = FewestUnits(time.parameters);
}

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
      small_(options_.solver ? Unshortened(model) : Shorten(model)),
      units_(UnitsOf(model).begins),
      network_(cluster, LinkEfficiency(cluster, options_.sim)) {}

// Ways between shardings and choices of nodes do not depend on the policy.
struct Prices::StageMaker {
  StageMaker(const Model& model, const Cluster& cluster, const Mesh& mesh, CostOptions options)
      : costs(model, cluster, mesh, std::move(options)), maker(costs) {}
  std::mutex mutex;
  StageCosts costs;
  ProblemMaker maker;
};

Prices::~Prices() = default;

namespace {

// Of many micro-batches what is done once is next to nothing.
PriceKey OfMany(PriceKey key, double many) {
  if (key.microbatches >= many) key.microbatches = std::numeric_limits<double>::infinity();
  return key;
}

// What no strategies go below: what is done once counts where there is one micro-batch. Then many keys are one.
PriceKey OfLeast(PriceKey key) { return OfMany(std::move(key), 2); }

}  // namespace

const Priced* Prices::Of(PriceKey key) {
  constexpr double kMany = 8;
  key = OfMany(std::move(key), kMany);
  return Cached(mutex_, made_, key, [&] { return Make(key); }).get();
}

const LeastTime* Prices::LeastTimeOf(PriceKey key) {
  key = OfLeast(std::move(key));
  key.per_byte = key.per_parameter = 0;
  return Cached(mutex_, times_, key, [&] { return MakeLeastTime(key); }).get();
}

// Which policies are asked for is the problem's, and the same for all keys.
const LeastRoom* Prices::LeastRoomOf(PriceKey key, const std::vector<RecomputePolicy>& policies) {
  key = OfLeast(std::move(key));
  key.per_byte = key.per_parameter = 0;
  key.recompute = policies.front();
  return Cached(mutex_, rooms_, key, [&] { return MakeLeastRoom(key, policies); }).get();
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
        return std::make_unique<StageMaker>(small_.model, cluster_, MeshOf(key.axes),
                                            CostsFor(parts, key.microbatches));
      }).get();
  std::lock_guard lock(maker->mutex);
  auto stage = std::make_shared<StageProblem>(
      maker->maker.Of(0, static_cast<int>(small_.model.blocks.size()), key.recompute));
  for (VariableChain& chain : stage->problem.chains) {
    // Problems have chains in the order of the model's, but for those that are too short.
    const Model& small = small_.model;
    for (size_t c = 0; c < small.folding.chains.size(); ++c) {
      if (small_.left_out[c] == 0 || chain.copies.size() != kSpelled) continue;
      NodeId maker = stage->makers[static_cast<size_t>(chain.copies[0][0])];
      const std::vector<NodeId>& first = small.folding.chains[c].copies[0];
      if (std::find(first.begin(), first.end(), maker) == first.end()) continue;
      chain.unspelled = small_.left_out[c];
      chain.repeated = kSpelled - 2;
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
  // Bytes are those of activations, and so many for a parameter that it is worth what the key says.
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
  BlockCosts by_block = CostsByBlock(small_.model, stage, solution);
  std::vector<ChoiceCost> blocks;
  for (const ShortNode& at : small_.blocks) {
    const std::vector<ChoiceCost>& from = at.chain < 0 ? by_block.blocks : by_block.unspelled;
    blocks.push_back(from[at.node.index()]);
  }
  return blocks;
}

// Per unit, whatever strategies of neighbours fit together.
std::vector<double> Prices::LeastOfNodes(
    const StageProblem& stage,
    const std::function<double(size_t variable, size_t choice)>& number) const {
  std::vector<double> spelled(small_.model.blocks.size(), 0), units;
  for (size_t v = 0; v < stage.costs.size(); ++v) {
    double least = kForbidden;
    for (size_t x = 0; x < stage.costs[v]->size(); ++x) least = std::min(least, number(v, x));
    spelled[static_cast<size_t>(std::max(0, small_.model.block_of[stage.makers[v].index()]))] +=
        least;
  }
  for (size_t u = 0; u + 1 < units_.size(); ++u) {
    units.push_back(0);
    for (int b = units_[u]; b < units_[u + 1]; ++b) {
      units.back() += spelled[small_.blocks[static_cast<size_t>(b)].node.index()];
    }
  }
  return units;
}

// Where stages are cut strategies need not agree: what passes between units is then saved.
double Prices::SeamOf(const StageProblem& stage) const {
  // By block of the short model, what passes over its end.
  std::vector<double> over(small_.model.blocks.size() + 1, 0);
  auto block = [&](int v) {
    return static_cast<size_t>(
        std::max(0, small_.model.block_of[stage.makers[static_cast<size_t>(v)].index()]));
  };
  for (const PairCost& pair : stage.problem.pairs) {
    auto [first, last] = std::minmax({block(pair.a), block(pair.b)});
    double most = 0;
    for (double entry : *pair.seconds) most = entry < kForbidden ? std::max(most, entry) : most;
    for (size_t b = first; b < last; ++b) over[b] += most;
  }
  double seam = 0;
  for (size_t u = 1; u + 1 < units_.size(); ++u) {
    seam = std::max(seam, over[small_.blocks[static_cast<size_t>(units_[u]) - 1].node.index()]);
  }
  return seam;
}

std::unique_ptr<LeastTime> Prices::MakeLeastTime(const PriceKey& key) {
  std::shared_ptr<const StageProblem> stage = StageFor(key);
  std::vector<Problem> weighed = {Weighed(*stage, {key.microbatches, 0, 0, 0, 0, 0})};
  auto least = std::make_unique<LeastTime>();
  Weights seconds{1, 0, 0};
  least->ranges = FloorsOfRanges(model_, small_, *stage, weighed, seconds);
  int units = least->ranges.units();
  std::optional<Solution> fast = Solve(weighed[0], seconds);
  least->whole = fast ? fast->objective : least->ranges.Of(0, units);
  least->seam = SeamOf(*stage);
  auto cost = [&](size_t v, size_t x) -> const ChoiceCost& { return (*stage->costs[v])[x]; };
  least->forward =
      UnitSums(LeastOfNodes(*stage, [&](size_t v, size_t x) { return cost(v, x).forward; }));
  least->without_weights = UnitSums(LeastOfNodes(
      *stage, [&](size_t v, size_t x) { return cost(v, x).forward + cost(v, x).backward; }));
  least->activation_gradients =
      UnitSums(LeastOfNodes(*stage, [&](size_t v, size_t x) { return cost(v, x).backward; }));
  least->backward = UnitSums(LeastOfNodes(
      *stage, [&](size_t v, size_t x) { return cost(v, x).backward + cost(v, x).weight; }));
  least->parameters =
      UnitSums(LeastOfNodes(*stage, [&](size_t v, size_t x) { return cost(v, x).parameters; }));
  for (double unit : LeastOfNodes(*stage, [&](size_t v, size_t x) {
         int block = std::max(0, small_.model.block_of[stage->makers[v].index()]);
         bool layer = small_.model.blocks[static_cast<size_t>(block)].chain >= 0;
         return layer ? cost(v, x).parameters : 0;
       })) {
    least->layers += unit;
  }
  FindFewest(*least);
  return least;
}

std::unique_ptr<LeastRoom> Prices::MakeLeastRoom(const PriceKey& key,
                                                 const std::vector<RecomputePolicy>& policies) {
  struct UnderPolicy {
    std::vector<double> added, kept;
  };
  auto least = std::make_unique<LeastRoom>();
  std::shared_ptr<const StageProblem> plain;
  std::vector<UnderPolicy> all;
  for (RecomputePolicy policy : policies) {
    PriceKey at = key;
    at.recompute = policy;
    std::shared_ptr<const StageProblem> stage = StageFor(at);
    if (!plain) plain = stage;
    bool same = stage->costs.size() == plain->costs.size();
    for (size_t v = 0; same && v < stage->costs.size(); ++v) {
      same = stage->costs[v]->size() == plain->costs[v]->size();
    }
    UnderPolicy under;
    under.kept = LeastOfNodes(*stage, [&](size_t v, size_t x) {
      return kSureToKeep * (*stage->costs[v])[x].activations;
    });
    under.added = LeastOfNodes(*stage, [&](size_t v, size_t x) {
      return same ? std::max(0.0, (*stage->costs[v])[x].seconds() - (*plain->costs[v])[x].seconds())
                  : 0;
    });
    all.push_back(std::move(under));
  }
  auto each = [&](double per_byte) {
    std::vector<double> units = {};
    for (size_t u = 0; u + 1 < units_.size(); ++u) {
      double of = kForbidden;
      for (const UnderPolicy& under : all) {
        of = std::min(of, under.added[u] + per_byte * under.kept[u]);
      }
      units.push_back(of);
    }
    return UnitSums(units);
  };
  std::vector<double> fewest;
  for (size_t u = 0; u + 1 < units_.size(); ++u) {
    double of = kForbidden;
    for (const UnderPolicy& under : all) of = std::min(of, under.kept[u]);
    fewest.push_back(of);
  }
  least->least = UnitSums(fewest);
  // Prices at which one policy takes the place of another, at a unit in the middle and at the heaviest.
  size_t units = units_.size() - 1, heaviest = 0;
  for (size_t u = 0; u < units; ++u) {
    if (all[0].kept[u] > all[0].kept[heaviest]) heaviest = u;
  }
  std::set<double> prices;
  for (size_t u : {units / 4, units / 2, heaviest}) {
    for (const UnderPolicy& a : all) {
      for (const UnderPolicy& b : all) {
        if (b.added[u] > a.added[u] && b.kept[u] < a.kept[u]) {
          prices.insert((b.added[u] - a.added[u]) / (a.kept[u] - b.kept[u]));
        }
      }
    }
  }
  for (double per_byte : prices) least->levels.push_back({per_byte, each(per_byte)});
  for (size_t u = 0; u < units; ++u) {
    LeastRoom::Policies unit;
    for (const UnderPolicy& under : all) {
      unit.added.push_back(under.added[u]);
      unit.kept.push_back(under.kept[u]);
    }
    if (u == 0) least->first = unit;
    if (u + 1 == units) least->last = unit;
    bool inner = u > 0 && u + 1 < units;
    bool known = std::find(least->inner.begin(), least->inner.end(), unit) != least->inner.end();
    if (inner && !known) least->inner.push_back(std::move(unit));
  }
  return least;
}

std::unique_ptr<RangeFloors> Prices::MakeLeastPriced(const PriceKey& key,
                                                     const std::vector<RecomputePolicy>& policies) {
  StageScale scale{key.microbatches, kSureToKeep * key.per_byte, key.per_parameter, 0, 0, 0};
  std::vector<Problem> weighed;
  std::shared_ptr<const StageProblem> stage;
  for (RecomputePolicy policy : policies) {
    PriceKey at = key;
    at.recompute = policy;
    stage = StageFor(at);
    weighed.push_back(Weighed(*stage, scale));
  }
  return std::make_unique<RangeFloors>(FloorsOfRanges(model_, small_, *stage, weighed, {1, 0, 1}));
}

std::vector<Strategy> Prices::StrategiesOf(const Priced& priced) const {
  std::vector<Strategy> spelled = heddle::StrategiesOf(*priced.stage, priced.solution.choice);
  std::vector<Strategy> strategies;
  const std::vector<VariableChain>& chains = priced.stage->problem.chains;
  // Where a variable of a repeated copy is in it.
  std::map<int, std::pair<size_t, size_t>> places;
  for (size_t c = 0; c < chains.size(); ++c) {
    if (chains[c].unspelled == 0) continue;
    const std::vector<int>& copy = chains[c].copies[chains[c].repeated];
    for (size_t i = 0; i < copy.size(); ++i) places[copy[i]] = {c, i};
  }
  for (const ShortNode& at : small_.nodes) {
    if (!at.node.valid()) {
      strategies.emplace_back(priced.mesh.axes.size(), kReplicate);
      continue;
    }
    const NodeVariable& node = priced.stage->nodes[at.node.index()];
    auto place = places.find(node.variable);
    if (at.chain < 0 || place == places.end()) {
      strategies.push_back(spelled[at.node.index()]);
      if (strategies.back().empty()) strategies.back().assign(priced.mesh.axes.size(), kReplicate);
      continue;
    }
    auto [chain, index] = place->second;
    size_t x =
        static_cast<size_t>(priced.solution.unspelled[chain][static_cast<size_t>(at.copy)][index]);
    if (!node.follows.empty()) x = static_cast<size_t>(node.follows[x]);
    strategies.push_back(node.choices->strategies[x]);
  }
  return strategies;
}

}  // namespace heddle
