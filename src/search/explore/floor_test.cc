// Floors of random units against an enumeration of all cuts and all recomputation policies.
#include "search/explore/floor.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <set>

namespace heddle {
namespace {

using Random = std::mt19937_64;
double Share(Random& rng) { return static_cast<double>(rng() % 1000 + 1) / 1000; }

constexpr size_t kPolicies = 3;

struct Case {
  Configuration c;
  std::vector<double> seconds, forward, parameters;
  std::array<std::vector<double>, kPolicies> added, kept;
  LeastTime time;
  LeastMemory least_memory;
  FloorProblem problem;
  int units() const { return static_cast<int>(seconds.size()); }
};

// Units differ. Stricter policies are slower and keep less.
void Fill(Random& rng, bool memory, Case& made) {
  made.c.pp = 1 + static_cast<int64_t>(rng() % 4);
  made.c.microbatches = 1 + static_cast<int64_t>(rng() % 8);
  int units = static_cast<int>(made.c.pp) + static_cast<int>(rng() % 3);
  std::set<double> prices;
  for (int u = 0; u < units; ++u) {
    made.seconds.push_back(Share(rng));
    made.forward.push_back(made.seconds.back() / 3);
    made.parameters.push_back(Share(rng));
    double added = 0, kept = 1 + Share(rng);
    for (size_t r = 0; r < kPolicies; ++r) {
      made.added[r].push_back(added);
      made.kept[r].push_back(kept);
      added += 0.3 * Share(rng);
      kept *= 0.2 + 0.7 * Share(rng);
      if (r > 0) {
        prices.insert((made.added[r].back() - made.added[r - 1].back()) /
                      (made.kept[r - 1].back() - made.kept[r].back()));
      }
    }
  }
  made.time.ranges = RangeFloors(made.seconds);
  made.time.whole = made.time.ranges.Of(0, units);
  made.time.forward = UnitSums(made.forward);
  made.time.without_weights = UnitSums(made.forward);
  std::vector<double> backward;
  for (size_t u = 0; u < made.seconds.size(); ++u) {
    backward.push_back(made.seconds[u] - made.forward[u]);
  }
  made.time.backward = UnitSums(backward);
  made.time.parameters = UnitSums(made.parameters);
  FindFewest(made.time);
  made.least_memory.least = UnitSums(made.kept[kPolicies - 1]);
  for (double price : prices) {
    std::vector<double> each;
    for (size_t u = 0; u < made.seconds.size(); ++u) {
      double of = kForbidden;
      for (size_t r = 0; r < kPolicies; ++r) {
        of = std::min(of, made.added[r][u] + price * made.kept[r][u]);
      }
      each.push_back(of);
    }
    made.least_memory.levels.push_back({price, UnitSums(each)});
  }
  FloorProblem& problem = made.problem;
  problem.time = problem.plain = &made.time;
  problem.transfer = 0.1 * Share(rng);
  problem.end.report = 0.1 * Share(rng);
  if (!memory) return;
  problem.memory.activations = &made.least_memory;
  problem.end.update = 0.3 * Share(rng);
  problem.end.reduce = Share(rng);
  problem.end.gather = Share(rng);
  problem.memory.per_parameter = Share(rng);
  problem.memory.gradient = Share(rng);
  problem.memory.gathered = rng() % 2 == 0 ? Share(rng) : 0;
  problem.memory.unreduced = problem.memory.gathered > 0 ? Share(rng) : 0;
  problem.host = 0.1 * Share(rng);
  problem.memory.limit = 2 + 10 * Share(rng);
}

struct Tried {
  double step = kForbidden;
  bool recomputes = false;  // somewhere, in the best assignment
};

// Tries all cuts and all policies of all units.
Tried TryAll(const Case& at) {
  const FloorProblem& problem = at.problem;
  double m = static_cast<double>(at.c.microbatches);
  double even = at.time.parameters.total() / static_cast<double>(at.c.pp);
  Tried best;
  auto stage = [&](int d, int first, int last, bool* recomputes) {
    double least = kForbidden;
    int units = last - first, all = static_cast<int>(std::pow(kPolicies, units));
    InFlight flight = LeastInFlight(at.c, d);
    for (int code = 0; code < all; ++code) {
      double seconds = 0, bytes = 0, parameters = 0, last_kept = 0;
      int rest = code;
      for (int u = first; u < last; ++u, rest /= static_cast<int>(kPolicies)) {
        size_t r = static_cast<size_t>(rest) % kPolicies, i = static_cast<size_t>(u);
        seconds += at.seconds[i] + at.added[r][i];
        parameters += at.parameters[i];
        last_kept = flight.most * at.kept[r][i];
        bytes += last_kept;
      }
      if (problem.memory.activations != nullptr && units > 0) {
        bytes += parameters * (problem.memory.per_parameter +
                               (flight.with_gradients ? problem.memory.gradient : 0));
        // The last layer and the one before it are gathered, and when the last layer's backward has
        // ended its gradients are held as well. Layers of the test differ in size; the bound counts
        // the smallest.
        double layer = *std::min_element(at.parameters.begin(), at.parameters.end());
        double gathered = problem.memory.gathered * layer * (units > 1 ? 2 : 1);
        if (bytes + gathered > problem.memory.limit) continue;
        if (bytes - last_kept + gathered + problem.memory.unreduced * layer > problem.memory.limit)
          continue;
      }
      double own = units > 0 ? m * (seconds + 2 * problem.host) : 0, head = 0, tail = 0;
      for (int u = 0; u < first; ++u) {
        head += at.forward[static_cast<size_t>(u)];
        tail += at.seconds[static_cast<size_t>(u)] - at.forward[static_cast<size_t>(u)];
      }
      double hops = d * problem.transfer;
      double ready = 2 * hops + head + own + tail;
      if (units > 0 && at.c.pp > 1) {  // the first backward comes after a forward of all units
        double turned = at.time.forward.total() + at.time.backward.total() -
                        at.time.backward.Of(first, last) +
                        2 * static_cast<double>(at.c.pp - 1) * problem.transfer;
        double each = at.time.backward.Of(first, last) + problem.host;
        ready = std::max(ready, turned + m * each);
      }
      // The gradients of the units up to each one are reduced after its last backward has begun.
      double backward = problem.host, reduced = 0;
      rest = code;
      for (int u = first; u < last; ++u, rest /= static_cast<int>(kPolicies)) {
        size_t r = static_cast<size_t>(rest) % kPolicies, i = static_cast<size_t>(u);
        backward += at.seconds[i] + at.added[r][i] - at.forward[i];
        reduced += at.parameters[i] * problem.end.reduce;
        ready = std::max(ready, hops + head + own - backward + reduced);
      }
      double updated =
          std::max(parameters, even) * std::max(problem.end.update, problem.end.gather);
      double end = ready + problem.end.report + updated;
      if (end < least) {
        least = end;
        *recomputes = code > 0;
      }
    }
    return least;
  };
  std::function<void(int, int, double, bool)> give = [&](int d, int first, double worst,
                                                         bool recomputes) {
    if (d == static_cast<int>(at.c.pp)) {
      if (first == at.units() && worst < best.step) best = {worst, recomputes};
      return;
    }
    for (int last = first; last <= at.units(); ++last) {
      bool here = false;
      double own = stage(d, first, last, &here);
      if (own < kForbidden) give(d + 1, last, std::max(worst, own), recomputes || here);
    }
  };
  give(0, 0, 0, false);
  return best;
}

double Even(const Case& at) {
  const FloorProblem& problem = at.problem;
  double m = static_cast<double>(at.c.microbatches), devices = static_cast<double>(at.c.pp);
  double busy = m * (at.time.whole + 2 * problem.host * devices) / devices;
  double path = at.time.whole + 2 * problem.host + 2 * (devices - 1) * problem.transfer;
  double updated =
      at.time.parameters.total() / devices * std::max(problem.end.update, problem.end.gather);
  return std::max(busy, path) + problem.end.report + updated;
}

TEST(Floor, NeverAboveTheBestOfAllAssignments) {
  Random rng(9);
  int equal = 0, infeasible = 0, recomputed = 0;
  for (int round = 0; round < 1500; ++round) {
    Case at;
    bool memory = round % 2 == 1;
    Fill(rng, memory, at);
    Tried tried = TryAll(at);
    double floor = FloorOf(at.c, at.problem);
    if (tried.step == kForbidden) {
      ++infeasible;
      continue;
    }
    double want = std::max(tried.step, Even(at));
    EXPECT_LE(floor, want * (1 + 2e-6)) << round;
    recomputed += tried.recomputes ? 1 : 0;
    if (memory) continue;
    EXPECT_GE(floor, want * (1 - 1.01e-4)) << round;  // up to the accuracy of the bisection
    ++equal;
  }
  EXPECT_GT(equal, 500);
  EXPECT_GT(recomputed, 50);
  EXPECT_GT(infeasible, 5);
}

TEST(Floor, NothingFits) {
  Random rng(10);
  Case at;
  Fill(rng, true, at);
  at.problem.memory.limit = 1e-3;
  EXPECT_EQ(FloorOf(at.c, at.problem), kForbidden);
}

TEST(Floor, FallsWithMemory) {
  Random rng(12);
  for (int round = 0; round < 500; ++round) {
    Case at;
    Fill(rng, true, at);
    double before = kForbidden;
    for (double share : {0.5, 1.0, 2.0, 4.0}) {
      FloorProblem problem = at.problem;
      problem.memory.limit *= share;
      double one = FloorOf(at.c, problem);
      EXPECT_LE(one, before * (1 + 2e-4));
      before = one;
    }
  }
}

}  // namespace
}  // namespace heddle
