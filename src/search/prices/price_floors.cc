#include "search/prices/price_floors.h"

#include <algorithm>
#include <set>

#include "search/prices/prices.h"

namespace heddle {
namespace {

// The share of the kept activations that is certain to be kept, since views of one storage may be
// kept once.
constexpr double kCertainShare = 1;

}  // namespace

double LeastMemory::Policies::At(double per_byte) const {
  double of = kForbidden;
  for (size_t p = 0; p < added.size(); ++p) of = std::min(of, added[p] + per_byte * kept[p]);
  return of;
}

double LeastMemory::Policies::least() const { return *std::min_element(kept.begin(), kept.end()); }

void FindFewest(LeastTime& time) {
  std::vector<double> alone;
  for (int u = 0; u < time.ranges.units(); ++u) alone.push_back(time.ranges.Alone(u, u + 1));
  time.fewest_seconds = FewestUnits(UnitSums(alone));
  time.fewest_parameters = FewestUnits(time.parameters);
}

// Per unit, the sum over nodes of the least number among their choices, whether or not neighbours'
// choices are compatible.
std::vector<double> Prices::LeastOfNodes(
    const StageProblem& stage,
    const std::function<double(size_t variable, size_t choice)>& number) const {
  std::vector<double> explicit_blocks(short_.model.blocks.size(), 0), units;
  for (size_t v = 0; v < stage.costs.size(); ++v) {
    double least = kForbidden;
    for (size_t x = 0; x < stage.costs[v]->size(); ++x) least = std::min(least, number(v, x));
    explicit_blocks[static_cast<size_t>(
        std::max(0, short_.model.block_of[stage.makers[v].index()]))] += least;
  }
  for (size_t u = 0; u + 1 < units_.size(); ++u) {
    units.push_back(0);
    for (int b = units_[u]; b < units_[u + 1]; ++b) {
      units.back() += explicit_blocks[short_.blocks[static_cast<size_t>(b)].node.index()];
    }
  }
  return units;
}

// The strategies of the units beside a cut need not agree, so the cut saves the traffic between
// them.
double Prices::CutSaving(const StageProblem& stage) const {
  // Per block of the short model: what passes its end.
  std::vector<double> over(short_.model.blocks.size() + 1, 0);
  auto block = [&](int v) {
    return static_cast<size_t>(
        std::max(0, short_.model.block_of[stage.makers[static_cast<size_t>(v)].index()]));
  };
  for (const PairCost& pair : stage.problem.pairs) {
    auto [first, last] = std::minmax({block(pair.a), block(pair.b)});
    double most = 0;
    for (double entry : *pair.seconds) most = entry < kForbidden ? std::max(most, entry) : most;
    for (size_t b = first; b < last; ++b) over[b] += most;
  }
  double saving = 0;
  for (size_t u = 1; u + 1 < units_.size(); ++u) {
    saving = std::max(saving, over[short_.blocks[static_cast<size_t>(units_[u]) - 1].node.index()]);
  }
  return saving;
}

std::unique_ptr<LeastTime> Prices::MakeLeastTime(const PriceKey& key) {
  std::shared_ptr<const StageProblem> stage = StageFor(key);
  std::vector<Problem> weighed = {Weighed(*stage, {key.microbatches, 0, 0, 0, 0, 0})};
  auto least = std::make_unique<LeastTime>();
  Weights seconds{1, 0, 0};
  least->ranges = FloorsOfRanges(model_, short_, *stage, weighed, seconds);
  int units = least->ranges.units();
  std::optional<Solution> fast = Solve(weighed[0], seconds);
  least->whole = fast ? fast->objective : least->ranges.Of(0, units);
  least->cut_saving = CutSaving(*stage);
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
         int block = std::max(0, short_.model.block_of[stage->makers[v].index()]);
         bool layer = short_.model.blocks[static_cast<size_t>(block)].chain >= 0;
         return layer ? cost(v, x).parameters : 0;
       })) {
    least->layers += unit;
  }
  FindFewest(*least);
  return least;
}

// The least that recomputing adds, and keeps, per unit under each policy, in the order of the policies.
std::vector<LeastMemory::Policies> Prices::UnitsUnderPolicies(
    const PriceKey& key, const std::vector<RecomputePolicy>& policies) {
  std::vector<LeastMemory::Policies> units(units_.size() - 1);
  std::shared_ptr<const StageProblem> plain;
  for (RecomputePolicy policy : policies) {
    PriceKey at = key;
    at.recompute = policy;
    std::shared_ptr<const StageProblem> stage = StageFor(at);
    if (!plain) plain = stage;
    bool same = stage->costs.size() == plain->costs.size();
    for (size_t v = 0; same && v < stage->costs.size(); ++v) {
      same = stage->costs[v]->size() == plain->costs[v]->size();
    }
    std::vector<double> kept = LeastOfNodes(*stage, [&](size_t v, size_t x) {
      return kCertainShare * (*stage->costs[v])[x].activations;
    });
    std::vector<double> added = LeastOfNodes(*stage, [&](size_t v, size_t x) {
      return same ? std::max(0.0, (*stage->costs[v])[x].seconds() - (*plain->costs[v])[x].seconds())
                  : 0;
    });
    for (size_t u = 0; u < units.size(); ++u) {
      units[u].kept.push_back(kept[u]);
      units[u].added.push_back(added[u]);
    }
  }
  return units;
}

namespace {

// The prices of a byte at which one policy replaces another, at a unit in the middle and at the one that keeps most.
std::set<double> BreakEvenPrices(const std::vector<LeastMemory::Policies>& units) {
  size_t heaviest = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    if (units[u].kept[0] > units[heaviest].kept[0]) heaviest = u;
  }
  std::set<double> prices;
  for (size_t u : {units.size() / 4, units.size() / 2, heaviest}) {
    const auto& [added, kept] = units[u];
    for (size_t a = 0; a < added.size(); ++a) {
      for (size_t b = 0; b < added.size(); ++b) {
        if (added[b] > added[a] && kept[b] < kept[a]) {
          prices.insert((added[b] - added[a]) / (kept[a] - kept[b]));
        }
      }
    }
  }
  return prices;
}

}  // namespace

std::unique_ptr<LeastMemory> Prices::MakeLeastMemory(const PriceKey& key,
                                                     const std::vector<RecomputePolicy>& policies) {
  std::vector<LeastMemory::Policies> units = UnitsUnderPolicies(key, policies);
  auto least = std::make_unique<LeastMemory>();
  std::vector<double> each;
  for (const LeastMemory::Policies& unit : units) each.push_back(unit.least());
  least->least = UnitSums(each);
  for (double per_byte : BreakEvenPrices(units)) {
    for (size_t u = 0; u < units.size(); ++u) each[u] = units[u].At(per_byte);
    least->levels.push_back({per_byte, UnitSums(each)});
  }
  least->first = units.front();
  least->last = units.back();
  for (size_t u = 1; u + 1 < units.size(); ++u) {
    bool known =
        std::find(least->inner.begin(), least->inner.end(), units[u]) != least->inner.end();
    if (!known) least->inner.push_back(std::move(units[u]));
  }
  return least;
}

std::unique_ptr<RangeFloors> Prices::MakeLeastPriced(const PriceKey& key,
                                                     const std::vector<RecomputePolicy>& policies) {
  StageScale scale{key.microbatches, kCertainShare * key.per_byte, key.per_parameter, 0, 0, 0};
  std::vector<Problem> weighed;
  std::shared_ptr<const StageProblem> stage;
  for (RecomputePolicy policy : policies) {
    PriceKey at = key;
    at.recompute = policy;
    stage = StageFor(at);
    weighed.push_back(Weighed(*stage, scale));
  }
  return std::make_unique<RangeFloors>(FloorsOfRanges(model_, short_, *stage, weighed, {1, 0, 1}));
}

}  // namespace heddle
