#include "search/prices/range_floors.h"

#include <algorithm>
#include <optional>

#include "search/solver/chain_runs.h"
#include "search/solver/factors.h"

namespace heddle {

RangeFloors::RangeFloors(const std::vector<double>& units) {
  for (double unit : units) sums_.push_back(sums_.back() + unit);
}

double RangeFloors::Alone(int first, int last) const {
  return sums_[static_cast<size_t>(last)] - sums_[static_cast<size_t>(first)];
}

double RangeFloors::Of(int first, int last) const {
  double least = 0;
  int at = first;
  for (const Run& run : runs_) {
    int begin = std::max(at, run.first), end = std::min(last, run.last);
    if (begin >= end) continue;
    size_t count = static_cast<size_t>(end - begin);
    bool before = begin == run.first && run.first > at && !run.before.empty();
    bool after = end == run.last && run.last < last && !run.after.empty();
    const std::vector<double>& of =
        before ? (after ? run.both : run.before) : (after ? run.after : run.alone);
    least += Alone(at, begin - (before ? 1 : 0)) + of[count];
    at = end + (after ? 1 : 0);
  }
  return least + Alone(at, std::max(at, last));
}

class RangeFloorMaker {
 public:
  RangeFloorMaker(const Model& whole, const ShortModel& small, const StageProblem& stage,
                  const std::vector<Problem>& policies, const Weights& weights)
      : small_(small), policies_(policies), weights_(weights), units_(UnitsOf(whole).begins) {
    for (const UnaryRef& unary : policies[0].unary) domains_.push_back(unary->size());
    variables_.resize(small.model.blocks.size());
    block_of_.resize(domains_.size());
    for (size_t v = 0; v < domains_.size(); ++v) {
      int block = std::max(0, small.model.block_of[stage.makers[v].index()]);
      block_of_[v] = block;
      variables_[static_cast<size_t>(block)].push_back(static_cast<int>(v));
    }
    pairs_.resize(domains_.size());
    for (size_t p = 0; p < policies[0].pairs.size(); ++p) {
      pairs_[static_cast<size_t>(policies[0].pairs[p].a)].push_back(static_cast<int>(p));
    }
    alike_ = std::all_of(policies.begin(), policies.end(),
                         [&](const Problem& other) { return SameShape(policies[0], other); });
  }

  RangeFloors Run() {
    RangeFloors out;
    FindUnits();
    // Bound of a unit that is one block, by block.
    std::vector<double> known(variables_.size(), -1);
    for (const std::vector<int>& unit : unit_blocks_) {
      double* one = unit.size() == 1 ? &known[static_cast<size_t>(unit[0])] : nullptr;
      double least = one != nullptr && *one >= 0 ? *one : Least(unit);
      if (one != nullptr) *one = least;
      out.sums_.push_back(out.sums_.back() + least);
    }
    if (!alike_) return out;
    for (const ChainRun& run : FindRuns(policies_[0])) {
      std::optional<RangeFloors::Run> found = RunOf(run);
      if (found) out.runs_.push_back(std::move(*found));
    }
    std::sort(out.runs_.begin(), out.runs_.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    return out;
  }

 private:
  static bool SameShape(const Problem& a, const Problem& b) {
    if (a.unary.size() != b.unary.size() || a.pairs.size() != b.pairs.size()) return false;
    for (size_t v = 0; v < a.unary.size(); ++v) {
      if (a.unary[v]->size() != b.unary[v]->size()) return false;
    }
    for (size_t p = 0; p < a.pairs.size(); ++p) {
      if (a.pairs[p].a != b.pairs[p].a || a.pairs[p].b != b.pairs[p].b) return false;
    }
    return true;
  }

  // For each unit of the whole model, its blocks in the short model.
  void FindUnits() {
    for (size_t u = 0; u + 1 < units_.size(); ++u) {
      unit_blocks_.emplace_back();
      for (int b = units_[u]; b < units_[u + 1]; ++b) {
        unit_blocks_.back().push_back(
            static_cast<int>(small_.blocks[static_cast<size_t>(b)].node.index()));
      }
    }
  }

  // Minimises over all variables of the blocks except `ends` the costs inside a set of blocks and
  // between it and `before`: a table over `before` and `ends`. Nothing where it would be too large.
  std::optional<Table> Eliminate(const std::vector<int>& blocks, const std::vector<int>& before,
                                 const std::vector<int>& ends) const {
    std::optional<Table> least;
    std::vector<bool> here(domains_.size(), false), inner = here, known = here;
    for (int block : blocks) {
      for (int v : variables_[static_cast<size_t>(block)]) here[static_cast<size_t>(v)] = true;
    }
    inner = known = here;
    for (int v : ends) inner[static_cast<size_t>(v)] = false;
    for (int v : before) known[static_cast<size_t>(v)] = true;
    std::vector<int> scope = before;
    scope.insert(scope.end(), ends.begin(), ends.end());
    for (const Problem& problem : policies_) {
      Elimination block(domains_);
      for (size_t v = 0; v < domains_.size(); ++v) {
        if (here[v]) block.Add({static_cast<int>(v)}, Weighted(*problem.unary[v], weights_));
        if (!known[v]) continue;
        for (int p : pairs_[v]) {
          const PairCost& pair = problem.pairs[static_cast<size_t>(p)];
          size_t b = static_cast<size_t>(pair.b);
          if (known[b] && (here[v] || here[b])) {
            block.Add({pair.a, pair.b}, Weighted(pair, weights_));
          }
        }
      }
      if (!block.Run(inner)) return std::nullopt;
      Table table = block.Rest(scope);
      if (!least) {
        least = std::move(table);
        continue;
      }
      for (size_t i = 0; i < table.size(); ++i) (*least)[i] = std::min((*least)[i], table[i]);
    }
    return least;
  }

  double Least(const std::vector<int>& blocks) const {
    if (alike_) {
      std::optional<Table> table = Eliminate(blocks, {}, {});
      if (table) return (*table)[0];
    }
    // Every variable separately.
    double least = kForbidden;
    for (const Problem& problem : policies_) {
      double sum = 0;
      for (int block : blocks) {
        for (int v : variables_[static_cast<size_t>(block)]) {
          TableRef of = Weighted(*problem.unary[static_cast<size_t>(v)], weights_);
          sum += *std::min_element(of->begin(), of->end());
        }
      }
      least = std::min(least, sum);
    }
    return least;
  }

  std::vector<int> EndsOf(const ChainRun& run, size_t copy) const {
    std::vector<int> ends;
    for (int i : run.ends) ends.push_back(run.chain->copies[copy][static_cast<size_t>(i)]);
    return ends;
  }

  size_t StatesOf(const std::vector<int>& scope) const {
    size_t states = 1;
    for (int v : scope) states *= domains_[static_cast<size_t>(v)];
    return states;
  }

  int BlockOf(const ChainRun& run, size_t copy) const {
    return block_of_[static_cast<size_t>(run.chain->copies[copy][0])];
  }

  // Nothing where the run's units are not adjacent or have too many states.
  std::optional<RangeFloors::Run> RunOf(const ChainRun& run) const {
    constexpr size_t kMostStates = 512;
    std::vector<int> ends = EndsOf(run, run.first), previous = EndsOf(run, run.first - 1);
    size_t states = StatesOf(ends);
    if (states > kMostStates || StatesOf(previous) != states) return std::nullopt;
    RangeFloors::Run out;
    if (!Place(run, out)) return std::nullopt;
    int block = BlockOf(run, run.first);
    std::optional<Table> start = Eliminate({block}, {}, ends);
    std::optional<Table> matrix = Eliminate({block}, previous, ends);
    if (!start || !matrix) return std::nullopt;
    // The unit before the run, whose states are those of the ends of the copy before.
    std::optional<Table> before, after;
    if (out.first > 0) {
      const std::vector<int>& unit = unit_blocks_[static_cast<size_t>(out.first) - 1];
      if (Contains(unit, BlockOf(run, run.first - 1))) before = Eliminate(unit, {}, previous);
    }
    if (static_cast<size_t>(out.last) < unit_blocks_.size() &&
        run.last < run.chain->copies.size()) {
      const std::vector<int>& unit = unit_blocks_[static_cast<size_t>(out.last)];
      std::vector<int> last = EndsOf(run, run.last - 1);
      if (Contains(unit, BlockOf(run, run.last))) after = Eliminate(unit, last, {});
    }
    size_t most = static_cast<size_t>(out.last - out.first);
    Raise(*start, *matrix, 1, most, after, out.alone, out.after);
    if (before) Raise(*before, *matrix, 0, most, after, out.before, out.both);
    return out;
  }

  static bool Contains(const std::vector<int>& blocks, int block) {
    return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
  }

  // Finds the units of the whole model that the copies of a run stand for.
  bool Place(const ChainRun& run, RangeFloors::Run& out) const {
    std::vector<int> blocks;
    for (size_t c = run.first; c < run.last; ++c) blocks.push_back(BlockOf(run, c));
    out.first = -1;
    int64_t count = 0;
    for (size_t u = 0; u < unit_blocks_.size(); ++u) {
      if (unit_blocks_[u].size() != 1 || !Contains(blocks, unit_blocks_[u][0])) continue;
      if (out.first < 0) out.first = static_cast<int>(u);
      out.last = static_cast<int>(u) + 1;
      ++count;
    }
    // The last copy may be part of a larger unit, together with blocks outside the layers.
    return count > 0 && count == out.last - out.first && count >= run.length() - 1;
  }

  // For each n from `from` to `most`, sets by[n] to the minimum of a vector after n - from
  // products, and closed[n] to the same with the costs of what comes after.
  static void Raise(Table vector, const Table& matrix, size_t from, size_t most,
                    const std::optional<Table>& after, std::vector<double>& by,
                    std::vector<double>& closed) {
    size_t states = vector.size();
    by.assign(from, 0);
    if (after) closed.assign(from, 0);
    for (size_t n = from; n <= most; ++n) {
      by.push_back(*std::min_element(vector.begin(), vector.end()));
      if (after) {
        double least = kForbidden;
        for (size_t x = 0; x < states; ++x) least = std::min(least, vector[x] + (*after)[x]);
        closed.push_back(least);
      }
      Table next(states, kForbidden);
      for (size_t x = 0; x < states; ++x) {
        const double* row = matrix.data() + x * states;
        for (size_t y = 0; y < states; ++y) next[y] = std::min(next[y], vector[x] + row[y]);
      }
      vector = std::move(next);
    }
  }

  const ShortModel& small_;
  const std::vector<Problem>& policies_;
  Weights weights_;
  std::vector<int> units_;
  std::vector<size_t> domains_;
  std::vector<int> block_of_;                // per variable
  std::vector<std::vector<int>> variables_;  // per block of the short model
  std::vector<std::vector<int>> pairs_;      // by their first variable
  std::vector<std::vector<int>> unit_blocks_;
  bool alike_ = true;
};

RangeFloors FloorsOfRanges(const Model& whole, const ShortModel& small, const StageProblem& stage,
                           const std::vector<Problem>& policies, const Weights& weights) {
  return RangeFloorMaker(whole, small, stage, policies, weights).Run();
}

}  // namespace heddle
