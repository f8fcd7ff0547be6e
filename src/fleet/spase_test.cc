#include "fleet/spase.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace heddle {
namespace {

// Jobs that scale with an exponent of 0.6 to 1, some of which need a minimum number of devices.
SpaseProblem RandomSpase(uint64_t seed, int jobs, int64_t devices) {
  SpaseProblem problem;
  problem.devices = devices;
  uint64_t counter = 0;
  auto uniform = [&] { return RandomUniform(seed, 0, counter++); };
  for (int j = 0; j < jobs; ++j) {
    JobCurve curve;
    double one = 100 * std::exp(3 * uniform());
    double exponent = 0.6 + 0.4 * uniform();
    int64_t least = int64_t{1} << static_cast<int>(3 * uniform() * uniform());
    for (int64_t g = std::min(least, devices); g <= devices; g *= 2) {
      curve.points.push_back({g, one / std::pow(static_cast<double>(g), exponent)});
    }
    problem.jobs.push_back(std::move(curve));
  }
  return problem;
}

// Checks that every device has one job at a time and that all work of every job is done.
void ExpectSound(const SpaseProblem& problem, const SpaseSchedule& schedule) {
  std::vector<double> done(problem.jobs.size(), 0);
  for (size_t i = 0; i < schedule.pieces.size(); ++i) {
    const SpasePiece& a = schedule.pieces[i];
    EXPECT_EQ(a.first % a.devices, 0);
    EXPECT_LE(a.first + a.devices, problem.devices);
    EXPECT_LE(a.end, schedule.makespan * (1 + 1e-12));
    for (size_t k = 0; k < i; ++k) {
      const SpasePiece& b = schedule.pieces[k];
      bool together = a.begin < b.end - 1e-9 && b.begin < a.end - 1e-9;
      bool apart = a.first + a.devices <= b.first || b.first + b.devices <= a.first;
      EXPECT_FALSE(together && (!apart || a.job == b.job));
    }
    for (const CurvePoint& point : problem.jobs[static_cast<size_t>(a.job)].points) {
      if (point.devices == a.devices) {
        done[static_cast<size_t>(a.job)] += (a.end - a.begin - a.lost) / point.seconds;
      }
    }
  }
  for (double part : done) EXPECT_GE(part, 1 - 1e-6);
  EXPECT_GE(schedule.makespan, SpaseBound(problem) * (1 - 1e-9));
}

TEST(SpaseTest, NeverWorseThanThePlainWays) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SpaseProblem problem = RandomSpase(seed, 2 + static_cast<int>(seed % 11), 8);
    SpaseSchedule one = OneAtATime(problem), equal = EqualSplit(problem);
    ExpectSound(problem, one);
    ExpectSound(problem, equal);
    SpaseSchedule solved = SolveSpase(problem, {.moves = 2000});
    ExpectSound(problem, solved);
    EXPECT_LE(solved.makespan, std::min(one.makespan, equal.makespan) * (1 + 1e-12));
    problem.switch_seconds = 5;
    SpaseSchedule run = RunSpase(problem, {.solve = {.moves = 500}, .first = {.moves = 2000}});
    ExpectSound(problem, run);
    EXPECT_LE(run.makespan, solved.makespan * (1 + 1e-9));
  }
}

TEST(SpaseTest, SameSeedSameSchedule) {
  SpaseProblem problem = RandomSpase(4, 9, 16);
  SpaseOptions options{.moves = 5000};
  EXPECT_EQ(SolveSpase(problem, options).pieces, SolveSpase(problem, options).pieces);
}

// The shortest makespan over all allotments and orders, for few jobs.
double ByTryingAll(const SpaseProblem& problem) {
  double best = INFINITY;
  std::vector<size_t> point(problem.jobs.size(), 0);
  while (true) {
    std::vector<int> order;
    for (size_t j = 0; j < point.size(); ++j) order.push_back(static_cast<int>(j));
    do {
      std::vector<double> free(static_cast<size_t>(problem.devices), 0);
      double end = 0;
      for (int j : order) {
        const CurvePoint& at =
            problem.jobs[static_cast<size_t>(j)].points[point[static_cast<size_t>(j)]];
        int64_t chosen = 0;
        double start = INFINITY;
        for (int64_t first = 0; first < problem.devices; first += at.devices) {
          double from = 0;
          for (int64_t d = first; d < first + at.devices; ++d) {
            from = std::max(from, free[static_cast<size_t>(d)]);
          }
          if (from < start) {
            start = from;
            chosen = first;
          }
        }
        for (int64_t d = chosen; d < chosen + at.devices; ++d) {
          free[static_cast<size_t>(d)] = start + at.seconds;
        }
        end = std::max(end, start + at.seconds);
      }
      best = std::min(best, end);
    } while (std::next_permutation(order.begin(), order.end()));
    size_t j = 0;
    while (j < point.size() && ++point[j] == problem.jobs[j].points.size()) point[j++] = 0;
    if (j == point.size()) return best;
  }
}

TEST(SpaseTest, NearTheBestOfAllForFewJobs) {
  for (uint64_t seed = 100; seed < 120; ++seed) {
    SpaseProblem problem = RandomSpase(seed, 4, 4);
    double best = ByTryingAll(problem);
    SpaseSchedule solved = SolveSpase(problem, {.moves = 20'000});
    EXPECT_LE(solved.makespan, best * 1.02) << "seed " << seed;
    EXPECT_LE(SpaseBound(problem), best * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace heddle
