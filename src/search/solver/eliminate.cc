#include "search/solver/eliminate.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "search/solver/chain_runs.h"
#include "search/solver/factors.h"
#include "search/solver/powers.h"

namespace heddle {
namespace {

std::vector<size_t> Domains(const Problem& problem) {
  std::vector<size_t> domains;
  for (const UnaryRef& unary : problem.unary) domains.push_back(unary->size());
  return domains;
}

std::optional<Solution> Solved(const Problem& problem, const Weights& weights,
                               std::vector<int> choice) {
  Solution solution;
  solution.cost = Evaluate(problem, choice);
  solution.objective = solution.cost.Weighted(weights);
  solution.choice = std::move(choice);
  return solution;
}

bool IsShortened(const Problem& problem) {
  return std::any_of(problem.chains.begin(), problem.chains.end(),
                     [](const VariableChain& chain) { return chain.left_out > 0; });
}

// A run of equal copies as one table over the states at its ends. With the ends P (of the copy
// before) and N (of a copy) and outside variables Z, eliminating the rest of one copy leaves a
// table over (P, N, Z): for each z a matrix from the states of P to those of N.
class RunSolver {
 public:
  RunSolver(const Problem& problem, const ChainRun& run, const Weights& weights)
      : problem_(problem), run_(run), weights_(weights), block_(Domains(problem)) {
    before_ = Ends(run.first - 1);
    ends_ = Ends(run.first);
    states_ = SizeOf(ends_);
    outside_states_ = SizeOf(run.outside);
  }

  // False where it is too large: then the run should be eliminated with the rest.
  bool Run() {
    double entries = static_cast<double>(states_) * static_cast<double>(states_) *
                     static_cast<double>(outside_states_);
    if (entries > static_cast<double>(kMaxMatrixEntries)) return false;
    const std::vector<int>& copy = run_.chain->copies[run_.first];
    std::vector<bool> here(problem_.unary.size(), false), inner = here;
    for (int v : copy) {
      here[static_cast<size_t>(v)] = inner[static_cast<size_t>(v)] = true;
      block_.Add({v}, Weighted(*problem_.unary[static_cast<size_t>(v)], weights_));
    }
    for (int v : ends_) inner[static_cast<size_t>(v)] = false;
    // The variables of this copy and of the one before.
    std::vector<bool> known = here;
    for (int v : run_.outside) known[static_cast<size_t>(v)] = true;
    for (int v : before_) known[static_cast<size_t>(v)] = true;
    for (int p : run_.pairs) {
      const PairCost& pair = problem_.pairs[static_cast<size_t>(p)];
      bool mine = (here[static_cast<size_t>(pair.a)] && known[static_cast<size_t>(pair.b)]) ||
                  (here[static_cast<size_t>(pair.b)] && known[static_cast<size_t>(pair.a)]);
      if (!mine) continue;
      block_.Add({pair.a, pair.b}, Weighted(pair, weights_));
      pairs_.push_back(p);
    }
    if (!block_.Run(inner)) return false;
    Raise();
    return true;
  }

  // The variables of the run that remain: the ends of its last copy.
  std::vector<int> Left() const { return Ends(run_.last - 1); }

  void AddTo(Elimination& rest) const {
    auto table = std::make_shared<Table>();
    table->reserve(states_ * states_ * outside_states_);
    for (size_t i = 0; i < states_ * states_; ++i) {
      for (const MinPlusPower& power : powers_) table->push_back(power.power()[i]);
    }
    std::vector<int> scope = before_, last = Left();
    scope.insert(scope.end(), last.begin(), last.end());
    scope.insert(scope.end(), run_.outside.begin(), run_.outside.end());
    rest.Add(std::move(scope), std::move(table));
  }

  // Fills in the variables of all copies, given the choices before the run, at its last ends and
  // outside. Choices of left-out copies go to the chain's list, and their cost to `left_out`.
  void Recover(Solution& solution, Cost& left_out) const {
    std::vector<int>& choice = solution.choice;
    std::vector<int> last = Left();
    int from = StateOf(before_, choice), to = StateOf(last, choice);
    size_t z = static_cast<size_t>(StateOf(run_.outside, choice));
    std::vector<int> states = powers_[z].Between(from, to);
    states.push_back(to);
    std::vector<int> one = choice;  // choices as seen from the first copy
    const std::vector<int>& first = run_.chain->copies[run_.first];
    size_t step = 0;
    std::map<std::pair<int, int>, std::vector<int>> known;  // choices between two states
    auto next = [&]() -> const std::vector<int>& {
      int state = states[step++];
      std::vector<int>& copy = known[{from, state}];
      SetState(before_, from, one);
      SetState(ends_, state, one);
      from = state;
      if (copy.empty()) {
        block_.Recover(one);
        for (int v : first) copy.push_back(one[static_cast<size_t>(v)]);
      }
      for (size_t i = 0; i < first.size(); ++i) one[static_cast<size_t>(first[i])] = copy[i];
      return copy;
    };
    size_t chain = static_cast<size_t>(run_.chain - problem_.chains.data());
    for (size_t c = run_.first; c < run_.last; ++c) {
      const std::vector<int>& here = run_.chain->copies[c];
      const std::vector<int>& copy = next();
      for (size_t i = 0; i < here.size(); ++i) choice[static_cast<size_t>(here[i])] = copy[i];
      if (c != run_.chain->repeated) continue;
      for (int64_t i = 0; i < run_.left_out; ++i) {
        solution.left_out[chain].push_back(next());
        left_out += CostOf(one);
      }
    }
  }

 private:
  // The cost of a copy and of its tables with the copy before, as seen from the first copy.
  Cost CostOf(const std::vector<int>& one) const {
    Cost cost;
    for (int v : run_.chain->copies[run_.first]) {
      size_t at = static_cast<size_t>(v);
      cost += problem_.unary[at]->At(static_cast<size_t>(one[at]));
    }
    for (int p : pairs_) {
      const PairCost& pair = problem_.pairs[static_cast<size_t>(p)];
      size_t row = static_cast<size_t>(one[static_cast<size_t>(pair.a)]);
      size_t column = static_cast<size_t>(one[static_cast<size_t>(pair.b)]);
      size_t entry = row * problem_.domain(pair.b) + column;
      cost += {(*pair.seconds)[entry], pair.queued ? (*pair.queued)[entry] : 0, 0};
    }
    return cost;
  }

  static constexpr int64_t kMaxMatrixEntries = int64_t{1} << 24;

  std::vector<int> Ends(size_t copy) const {
    std::vector<int> ends;
    for (int i : run_.ends) ends.push_back(run_.chain->copies[copy][static_cast<size_t>(i)]);
    return ends;
  }
  size_t SizeOf(const std::vector<int>& scope) const {
    size_t size = 1;
    for (int v : scope) size *= problem_.domain(v);
    return size;
  }
  int StateOf(const std::vector<int>& scope, const std::vector<int>& choice) const {
    int state = 0;
    for (int v : scope) {
      state = state * static_cast<int>(problem_.domain(v)) + choice[static_cast<size_t>(v)];
    }
    return state;
  }
  void SetState(const std::vector<int>& scope, int state, std::vector<int>& choice) const {
    for (size_t i = scope.size(); i-- > 0;) {
      int domain = static_cast<int>(problem_.domain(scope[i]));
      choice[static_cast<size_t>(scope[i])] = state % domain;
      state /= domain;
    }
  }

  void Raise() {
    std::vector<int> scope = before_;
    scope.insert(scope.end(), ends_.begin(), ends_.end());
    scope.insert(scope.end(), run_.outside.begin(), run_.outside.end());
    Table all = block_.Rest(scope);
    for (size_t z = 0; z < outside_states_; ++z) {
      Table matrix;
      matrix.reserve(states_ * states_);
      for (size_t i = 0; i < states_ * states_; ++i) matrix.push_back(all[i * outside_states_ + z]);
      powers_.emplace_back(std::move(matrix), states_, run_.length());
    }
  }

  const Problem& problem_;
  const ChainRun& run_;
  Weights weights_;
  Elimination block_;
  std::vector<int> pairs_;  // of the first copy
  std::vector<int> before_, ends_;
  size_t states_ = 1, outside_states_ = 1;
  std::vector<MinPlusPower> powers_;  // by the state of the outside variables
};

}  // namespace

std::optional<Solution> SolveWhole(const Problem& problem, const Weights& weights) {
  HEDDLE_CHECK(!IsShortened(problem), "copies that are left out have no variables");
  Elimination all(Domains(problem));
  for (size_t v = 0; v < problem.unary.size(); ++v) {
    all.Add({static_cast<int>(v)}, Weighted(*problem.unary[v], weights));
  }
  for (const PairCost& pair : problem.pairs) all.Add({pair.a, pair.b}, Weighted(pair, weights));
  if (!all.Run(std::vector<bool>(problem.unary.size(), true))) return std::nullopt;
  std::vector<int> choice(problem.unary.size(), 0);
  all.Recover(choice);
  return Solved(problem, weights, std::move(choice));
}

std::optional<Solution> SolveFolded(const Problem& problem, const Weights& weights) {
  std::vector<ChainRun> runs = FindRuns(problem);
  std::vector<bool> gone(problem.unary.size(), false);  // whose unary cost is in a run's table
  std::vector<bool> inner = gone, paid(problem.pairs.size(), false);
  std::vector<RunSolver> solvers;
  solvers.reserve(runs.size());
  Elimination rest(Domains(problem));
  for (const ChainRun& run : runs) {
    RunSolver solver(problem, run, weights);
    if (!solver.Run()) continue;
    for (size_t c = run.first; c < run.last; ++c) {
      for (int v : run.chain->copies[c])
        gone[static_cast<size_t>(v)] = inner[static_cast<size_t>(v)] = true;
    }
    for (int v : solver.Left()) inner[static_cast<size_t>(v)] = false;
    for (int p : run.pairs) paid[static_cast<size_t>(p)] = true;
    solver.AddTo(rest);
    solvers.push_back(std::move(solver));
  }
  for (size_t v = 0; v < problem.unary.size(); ++v) {
    if (!gone[v]) rest.Add({static_cast<int>(v)}, Weighted(*problem.unary[v], weights));
  }
  for (size_t p = 0; p < problem.pairs.size(); ++p) {
    const PairCost& pair = problem.pairs[p];
    if (!paid[p]) rest.Add({pair.a, pair.b}, Weighted(pair, weights));
  }
  std::vector<bool> eliminated(problem.unary.size());
  for (size_t v = 0; v < eliminated.size(); ++v) eliminated[v] = !inner[v];
  if (!rest.Run(eliminated)) return std::nullopt;
  Solution solution;
  solution.choice.assign(problem.unary.size(), 0);
  solution.left_out.resize(problem.chains.size());
  rest.Recover(solution.choice);
  for (const RunSolver& solver : solvers) solver.Recover(solution, solution.cost);
  for (size_t c = 0; c < problem.chains.size(); ++c) {
    int64_t there = static_cast<int64_t>(solution.left_out[c].size());
    if (there != problem.chains[c].left_out) return std::nullopt;
  }
  solution.cost += EvaluateExplicit(problem, solution);
  solution.objective = solution.cost.Weighted(weights);
  return solution;
}

}  // namespace heddle
