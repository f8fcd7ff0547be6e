#include "search/floor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace heddle {
namespace {

using Random = std::mt19937_64;
double Uniform(Random& rng) { return static_cast<double>(rng() % 1000 + 1) / 1000; }

struct Case {
  Configuration c;
  std::array<LeastTime, 3> times;
  std::array<LeastRoom, 3> rooms;
  FloorProblem problem;
  int layers = 1;

  void Link(int policies, bool memory) {
    for (size_t r = 0; r < static_cast<size_t>(policies); ++r) {
      problem.times[r] = &times[r];
      problem.rooms[r] = memory ? &rooms[r] : nullptr;
    }
  }
};

// More recomputed: slower, and less is kept. Without what is around the layers and between them where `bare`.
void Fill(Random& rng, bool bare, int policies, bool memory, Case& made) {
  made.c.pp = 1 + static_cast<int64_t>(rng() % 4);
  made.layers = static_cast<int>(made.c.pp) + static_cast<int>(rng() % 6);
  made.c.microbatches = 1 + static_cast<int64_t>(rng() % 8);
  double count = made.layers, seconds = Uniform(rng), bytes = 1 + Uniform(rng);
  double before = bare ? 0 : Uniform(rng), after = bare ? 0 : Uniform(rng);
  double seam = bare ? 0 : 0.1 * Uniform(rng), parameters = Uniform(rng);
  for (size_t r = 0; r < 3; ++r) {
    made.times[r].seconds = {before, after, count * seconds, count};
    made.times[r].seam = seam;
    made.rooms[r].activations = {0, 0, count * bytes, count};
    made.rooms[r].parameters = {0, 0, count * parameters, count};
    seconds += 0.3 * Uniform(rng);
    bytes *= 0.2 + 0.7 * Uniform(rng);
  }
  made.problem.bytes_per_parameter = Uniform(rng);
  made.problem.host = bare ? 0 : 0.1 * Uniform(rng);
  made.problem.limit = 3 + 10 * Uniform(rng);
  made.Link(policies, memory);
}

// The least time of n layers that fit, a part of them under each of two policies.
double LayersSeconds(const Case& at, int stage, double n) {
  double least = kForbidden;
  double in_flight = LeastInFlight(at.c, stage);
  auto kind = [&](size_t r) {
    double bytes = 0;
    if (at.problem.rooms[r] != nullptr) {
      bytes = in_flight * at.rooms[r].activations.mean() +
              at.problem.bytes_per_parameter * at.rooms[r].parameters.mean();
    }
    return std::pair(at.times[r].seconds.mean(), bytes);
  };
  for (size_t a = 0; a < 3; ++a) {
    for (size_t b = 0; b < 3; ++b) {
      if (at.problem.times[a] == nullptr || at.problem.times[b] == nullptr) continue;
      auto [slow, large] = kind(a);
      auto [fast, small] = kind(b);
      double share = 0;  // under b
      if (n * large > at.problem.limit) {
        if (n * small > at.problem.limit) continue;
        share = (n * large - at.problem.limit) / (n * large - n * small);
      }
      least = std::min(least, n * (slow + share * (fast - slow)));
    }
  }
  return least;
}

// All ways to give the layers to stages.
double Tried(const Case& at) {
  double m = static_cast<double>(at.c.microbatches), best = kForbidden;
  const LeastTime& time = at.times[0];
  std::function<void(int, int, double, double)> give = [&](int stage, int left, double before,
                                                           double worst) {
    int stages = static_cast<int>(at.c.pp);
    if (stage == stages) {
      if (left == 0) best = std::min(best, worst);
      return;
    }
    for (int n = 0; n <= left; ++n) {
      double ends =
          (stage == 0 ? time.seconds.before : 0) + (stage + 1 == stages ? time.seconds.after : 0);
      double own = LayersSeconds(at, stage, n);
      if (own == kForbidden) continue;
      own += ends - (stages > 1 ? time.seam : 0) + 2 * at.problem.host;
      double first = stage == 0 ? time.seconds.before : 0;
      double next = std::max(0.0, before + n * time.seconds.mean() + first - time.seam);
      give(stage + 1, left - n, next, std::max(worst, before + m * own));
    }
  };
  give(0, at.layers, 0, 0);
  return best;
}

// All devices busy, and the way of a micro-batch.
double Even(const Case& at) {
  double m = static_cast<double>(at.c.microbatches), stages = static_cast<double>(at.c.pp);
  double once = at.times[0].seconds.total() - (stages - 1) * at.times[0].seam;
  return std::max(m * once / stages, once + (m - 1) * once / stages / 2);
}

TEST(Floor, NeverAboveTheBestOfAllAssignments) {
  Random rng(9);
  int equal = 0, infeasible = 0, above_even = 0;
  for (int round = 0; round < 4000; ++round) {
    Case at;
    bool bare = round % 2 == 0, memory = round % 4 < 2;
    Fill(rng, bare, 1 + static_cast<int>(rng() % 3), memory, at);
    double floor = FloorOf(at.c, at.problem), tried = Tried(at);
    if (tried == kForbidden) {
      ++infeasible;
      continue;
    }
    double want = std::max(tried, Even(at));
    EXPECT_LE(floor, want * (1 + 2e-6)) << round;
    above_even += tried > Even(at) ? 1 : 0;
    if (!bare || at.c.pp == 1) continue;
    // Nothing is left out: the same, to what bisection leaves.
    EXPECT_GE(floor, want * (1 - 1.01e-4)) << round;
    ++equal;
  }
  EXPECT_GT(equal, 800);
  EXPECT_GT(above_even, 800);
  EXPECT_GT(infeasible, 50);
}

TEST(Floor, NothingFits) {
  Random rng(10);
  Case at;
  Fill(rng, true, 3, true, at);
  at.problem.limit = 1e-3;
  EXPECT_EQ(FloorOf(at.c, at.problem), kForbidden);
}

// More memory, or more freedom, is never slower.
TEST(Floor, FallsWithMemoryAndPolicies) {
  Random rng(12);
  for (int round = 0; round < 500; ++round) {
    Case at;
    Fill(rng, false, 1, true, at);
    double before = kForbidden;
    for (double share : {0.5, 1.0, 2.0, 4.0}) {
      FloorProblem problem = at.problem;
      problem.limit *= share;
      double one = FloorOf(at.c, problem);
      EXPECT_LE(one, before * (1 + 2e-6));
      before = one;
      for (size_t r = 1; r < 3; ++r) {
        problem.times[r] = &at.times[r];
        problem.rooms[r] = &at.rooms[r];
      }
      EXPECT_LE(FloorOf(at.c, problem), one * (1 + 2e-6));
    }
  }
}

}  // namespace
}  // namespace heddle
