#include "search/replicas/factor_cut.h"

#include <gtest/gtest.h>

#include "search/solver/cbc.h"
#include "search/solver/random_problem.h"

namespace heddle {
namespace {

// Operations read what earlier ones make. Some are forced, some values are made elsewhere, some
// costs are implications.
CutProblem RandomCutProblem(Random& rng, size_t operations) {
  CutProblem problem;
  for (size_t i = 0; i < operations; ++i) {
    problem.operations.push_back(
        {Uniform(rng) - (Below(rng, 3) == 0 ? 1.5 : 0), Below(rng, 6) == 0});
  }
  for (size_t v = 0; v < operations; ++v) {
    CutValue value;
    value.producer = Below(rng, 8) == 0 ? -1 : static_cast<int>(v);
    value.cost = Below(rng, 10) == 0 ? kForbidden : 0.6 * Uniform(rng);
    if (Below(rng, 10) == 0) value.cost = 0;
    for (size_t r = v + 1; r < operations; ++r) {
      if (Below(rng, 4) == 0) value.readers.push_back(static_cast<int>(r));
    }
    problem.values.push_back(std::move(value));
  }
  return problem;
}

std::vector<bool> Bits(size_t count, uint32_t bits) {
  std::vector<bool> whole;
  for (size_t i = 0; i < count; ++i) whole.push_back((bits >> i & 1) != 0);
  return whole;
}

TEST(FactorCut, EqualsBruteForce) {
  Random rng(1);
  int some = 0;
  for (int round = 0; round < 300; ++round) {
    CutProblem problem = RandomCutProblem(rng, 1 + Below(rng, 10));
    size_t count = problem.operations.size();
    for (Payment payment : {Payment::kPerReader, Payment::kOnce}) {
      double least = kForbidden;
      long fewest = 0;
      for (uint32_t bits = 0; bits < 1u << count; ++bits) {
        std::vector<bool> whole = Bits(count, bits);
        double cost = Evaluate(problem, whole, payment);
        long size = std::count(whole.begin(), whole.end(), true);
        if (cost < least - 1e-12 || (cost < least + 1e-12 && size < fewest)) fewest = size;
        least = std::min(least, cost);
      }
      Cut cut = SolveByCut(problem, payment);
      EXPECT_NEAR(cut.objective, least, 1e-12) << "round " << round;
      EXPECT_EQ(cut.objective, Evaluate(problem, cut.whole, payment));
      EXPECT_EQ(std::count(cut.whole.begin(), cut.whole.end(), true), fewest) << "round " << round;
      some += fewest > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(some, 200);
}

TEST(FactorCut, EqualsCbc) {
  if (!HasCbc()) GTEST_SKIP() << "built without CBC";
  Random rng(2);
  int dearer = 0;
  for (int round = 0; round < 200; ++round) {
    CutProblem problem = RandomCutProblem(rng, 2 + Below(rng, 60));
    Cut per_reader = SolveByCut(problem, Payment::kPerReader);
    Cut once = SolveByCut(problem, Payment::kOnce);
    EXPECT_NEAR(per_reader.objective, SolveByCbc(problem, Payment::kPerReader).objective, 1e-9);
    EXPECT_NEAR(once.objective, SolveByCbc(problem, Payment::kOnce).objective, 1e-9);
    double paid_once = Evaluate(problem, per_reader.whole, Payment::kOnce);
    EXPECT_LE(once.objective, paid_once + 1e-12);
    dearer += once.objective < paid_once - 1e-9 ? 1 : 0;
  }
  EXPECT_GT(dearer, 10);  // the cases tell the two apart
}

// A product x^T dy: 2 ms more work and 3 ms of gathering save a reduction of 6 ms. q, k and v read
// the same x.
TEST(FactorCut, AValueThatThreeReadIsPaidOnce) {
  CutProblem problem;
  CutValue x{-1, 3, {}};
  for (int i = 0; i < 3; ++i) {
    problem.operations.push_back({2 - 4.5, false});
    problem.values.push_back({-1, 0.5, {i}});
    x.readers.push_back(i);
  }
  problem.values.push_back(x);
  EXPECT_EQ(SolveByCut(problem, Payment::kPerReader).objective, 0);
  Cut once = SolveByCut(problem, Payment::kOnce);
  EXPECT_DOUBLE_EQ(once.objective, 3 * (2 - 4.5 + 0.5) + 3);
  EXPECT_EQ(once.whole, std::vector<bool>(3, true));
}

TEST(FactorCut, NothingToDecide) {
  EXPECT_EQ(SolveByCut({}, Payment::kOnce).objective, 0);
  CutProblem forced;
  forced.operations = {{-5, true}};
  EXPECT_EQ(SolveByCut(forced, Payment::kOnce).whole, std::vector<bool>{false});
  if (!HasCbc()) return;
  EXPECT_EQ(SolveByCbc({}, Payment::kOnce).objective, 0);
  EXPECT_EQ(SolveByCbc(forced, Payment::kOnce).whole, std::vector<bool>{false});
}

}  // namespace
}  // namespace heddle
