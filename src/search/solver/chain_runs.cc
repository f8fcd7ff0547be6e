#include "search/solver/chain_runs.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace heddle {
namespace {

constexpr size_t kMaxOutside = 2;

// (first variable, second variable, whether the first is the pair's a, tables). Variables are
// indices into copies, or variables outside.
using Tie = std::tuple<int, int, bool, const Table*, const Table*>;

// All pairs of a copy.
struct CopyTies {
  std::vector<Tie> inside;   // both variables in this copy
  std::vector<Tie> before;   // from the copy before to this one
  std::vector<Tie> outside;  // from a variable outside to this copy
  std::vector<int> pairs;
  bool far = false;  // has a pair with a copy that is not adjacent
};

class RunFinder {
 public:
  RunFinder(const Problem& problem, const VariableChain& chain)
      : problem_(problem), chain_(chain), ties_(chain.copies.size()) {}

  void Run(std::vector<ChainRun>& runs) {
    Locate();
    Sort();
    size_t first = 1;
    while (first < ties_.size()) {
      size_t last = first + 1;
      while (last < ties_.size() && Alike(last - 1, last)) ++last;
      ChainRun run;
      run.chain = &chain_;
      run.first = first;
      run.last = last;
      first = last;
      if (Close(run)) runs.push_back(std::move(run));
    }
  }

 private:
  struct Place {
    int copy = -1, index = -1;
  };

  void Locate() {
    std::vector<Place> places(problem_.unary.size());
    for (size_t c = 0; c < chain_.copies.size(); ++c) {
      for (size_t i = 0; i < chain_.copies[c].size(); ++i) {
        places[static_cast<size_t>(chain_.copies[c][i])] = {static_cast<int>(c),
                                                            static_cast<int>(i)};
      }
    }
    for (size_t p = 0; p < problem_.pairs.size(); ++p) {
      const PairCost& pair = problem_.pairs[p];
      Place a = places[static_cast<size_t>(pair.a)], b = places[static_cast<size_t>(pair.b)];
      if (a.copy >= 0 || b.copy >= 0) Tied(static_cast<int>(p), a, b);
    }
  }

  void Tied(int p, Place a, Place b) {
    const PairCost& pair = problem_.pairs[static_cast<size_t>(p)];
    bool in_order = a.copy <= b.copy;  // outside is -1
    Place earlier = in_order ? a : b, later = in_order ? b : a;
    CopyTies& at = ties_[static_cast<size_t>(later.copy)];
    at.pairs.push_back(p);
    const Table *seconds = pair.seconds.get(), *queued = pair.queued.get();
    if (earlier.copy < 0) {
      at.outside.push_back({in_order ? pair.a : pair.b, later.index, in_order, seconds, queued});
    } else if (earlier.copy == later.copy) {
      at.inside.push_back({a.index, b.index, true, seconds, queued});
    } else if (earlier.copy + 1 == later.copy) {
      at.before.push_back({earlier.index, later.index, in_order, seconds, queued});
    } else {
      at.far = ties_[static_cast<size_t>(earlier.copy)].far = true;
    }
  }

  void Sort() {
    for (CopyTies& at : ties_) {
      std::sort(at.inside.begin(), at.inside.end());
      std::sort(at.before.begin(), at.before.end());
      std::sort(at.outside.begin(), at.outside.end());
    }
  }

  bool Alike(size_t a, size_t b) const {
    const CopyTies &x = ties_[a], &y = ties_[b];
    if (x.far || y.far || x.inside != y.inside || x.before != y.before || x.outside != y.outside) {
      return false;
    }
    const std::vector<int>&left = chain_.copies[a], &right = chain_.copies[b];
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), [&](int v, int w) {
      const UnaryRef &p = problem_.unary[static_cast<size_t>(v)],
                     &q = problem_.unary[static_cast<size_t>(w)];
      return p == q || *p == *q;
    });
  }

  static std::vector<int> Firsts(const std::vector<Tie>& ties) {
    std::set<int> firsts;
    for (const Tie& tie : ties) firsts.insert(std::get<0>(tie));
    return {firsts.begin(), firsts.end()};
  }

  // Finds the ends and outside variables. False where the run is too short to be useful.
  bool Close(ChainRun& run) const {
    run.ends = Firsts(ties_[run.first].before);
    run.outside = Firsts(ties_[run.first].outside);
    if (run.ends.empty() || run.outside.size() > kMaxOutside) return false;
    if (run.last < ties_.size()) {
      // The copy after the run must read only the last copy's ends; otherwise the last copy is not
      // part of the run.
      std::vector<int> read = Firsts(ties_[run.last].before);
      bool ends = std::includes(run.ends.begin(), run.ends.end(), read.begin(), read.end());
      if (!ends) --run.last;
    }
    auto domain = [&](size_t copy, int index) {
      const std::vector<int>& variables = chain_.copies[copy];
      size_t at = static_cast<size_t>(index);
      return at < variables.size() ? problem_.domain(variables[at]) : 0;
    };
    // The states before the first copy may differ from those of the ends.
    bool same = std::all_of(run.ends.begin(), run.ends.end(), [&](int index) {
      return domain(run.first - 1, index) == domain(run.first, index);
    });
    if (!same) ++run.first;
    if (run.first <= chain_.repeated && chain_.repeated < run.last) {
      run.left_out = chain_.left_out;
    }
    if (run.last <= run.first || run.length() < 2) return false;
    for (size_t c = run.first; c < run.last; ++c) {
      run.pairs.insert(run.pairs.end(), ties_[c].pairs.begin(), ties_[c].pairs.end());
    }
    return true;
  }

  const Problem& problem_;
  const VariableChain& chain_;
  std::vector<CopyTies> ties_;
};

}  // namespace

std::vector<ChainRun> FindRuns(const Problem& problem) {
  std::vector<ChainRun> runs;
  for (const VariableChain& chain : problem.chains) RunFinder(problem, chain).Run(runs);
  return runs;
}

}  // namespace heddle
