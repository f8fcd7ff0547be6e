#include "search/placement/tree_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace heddle {
namespace {

// Each decision adds a value for its action, and neighbouring decisions add a value for their pair.
// Prefixes are completed with the first action.
class TableGame : public TreeGame {
 public:
  TableGame(uint64_t seed, size_t decisions, size_t actions)
      : decisions_(decisions), actions_(actions) {
    std::mt19937_64 rng(seed);
    auto draw = [&] { return static_cast<double>(rng() % 1000) / 1000.0; };
    for (size_t i = 0; i < decisions * actions; ++i) own_.push_back(draw());
    for (size_t i = 0; i < decisions * actions * actions; ++i) pair_.push_back(draw() / 2);
  }
  size_t decisions() const override { return decisions_; }
  size_t actions() const override { return actions_; }
  std::vector<double> Values(const std::vector<Prefix>& prefixes) override {
    std::vector<double> values;
    for (const Prefix& prefix : prefixes) values.push_back(Value(prefix));
    return values;
  }
  std::vector<std::vector<double>> Priors(const std::vector<Prefix>& prefixes) override {
    std::vector<std::vector<double>> priors(
        prefixes.size(), std::vector<double>(actions_, 1 / static_cast<double>(actions_)));
    for (size_t i = 0; i < prefixes.size() && !best_.empty(); ++i) {
      priors[i].assign(actions_, 0.05 / static_cast<double>(actions_));
      priors[i][static_cast<size_t>(best_[prefixes[i].size()])] += 0.95;
    }
    return priors;
  }
  void KnowBest() { best_ = Brute(); }
  double Value(Prefix at) const {
    at.resize(decisions_, at.empty() ? 0 : at.front());
    double sum = 0;
    for (size_t d = 0; d < decisions_; ++d) {
      size_t a = static_cast<size_t>(at[d]);
      sum += own_[d * actions_ + a];
      if (d > 0) sum += pair_[(d * actions_ + static_cast<size_t>(at[d - 1])) * actions_ + a];
    }
    return sum / static_cast<double>(decisions_) - 0.5;
  }
  double Best() const { return Value(Brute()); }
  Prefix Brute() const {
    double most = -std::numeric_limits<double>::infinity();
    Prefix at(decisions_, 0), best;
    while (true) {
      double value = Value(at);
      if (value > most) best = at;
      most = std::max(most, value);
      size_t d = 0;
      while (d < decisions_ && ++at[d] == static_cast<int>(actions_)) at[d++] = 0;
      if (d == decisions_) return best;
    }
  }

 private:
  size_t decisions_, actions_;
  std::vector<double> own_, pair_;
  Prefix best_;  // known to the prior
};

// With a small tree, the search visits all of it and finds the same as enumeration.
TEST(TreeSearch, EqualsBruteForce) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    TableGame game(seed, 4, 4);
    TreeOptions options;
    options.playouts = 20000;
    TreeResult found = SearchTree(game, options);
    EXPECT_NEAR(found.value, game.Best(), 1e-12) << seed;
    EXPECT_EQ(game.Value(found.best), found.value);
    EXPECT_LE(found.found, found.playouts);
  }
}

TEST(TreeSearch, IsTheSameTwice) {
  TableGame game(7, 8, 9);
  TreeOptions options;
  options.playouts = 500;
  options.noise = 0.25;
  options.seed = 3;
  TreeResult first = SearchTree(game, options), second = SearchTree(game, options);
  EXPECT_EQ(first.best, second.best);
  EXPECT_EQ(first.root_visits, second.root_visits);
  EXPECT_EQ(first.playouts, 500);
  options.seed = 4;
  EXPECT_NE(SearchTree(game, options).root_visits, first.root_visits);
}

// With a perfect prior it goes straight to the best of 8^6 strategies.
TEST(TreeSearch, FollowsThePrior) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    TableGame game(seed, 6, 8);
    double best = game.Best();
    game.KnowBest();
    TreeOptions options;
    options.playouts = 60;
    EXPECT_NEAR(SearchTree(game, options).value, best, 1e-12) << seed;
  }
}

TEST(TreeSearch, EndsWhenTold) {
  TableGame game(1, 6, 6);
  TreeOptions options;
  int calls = 0;
  options.over = [&] { return ++calls > 3; };
  TreeResult found = SearchTree(game, options);
  EXPECT_EQ(found.playouts, 24);
}

TEST(TreeSearch, GoesOnBelowAPrefix) {
  TableGame game(2, 3, 4);
  TreeOptions options;
  options.root = {1, 2};
  options.playouts = 200;
  TreeResult found = SearchTree(game, options);
  ASSERT_GE(found.best.size(), 2u);
  EXPECT_EQ(found.best[0], 1);
  EXPECT_EQ(found.best[1], 2);
  EXPECT_EQ(found.root_visits.size(), 4u);
}

TEST(TreeSearch, SaysWhereItWentAndHowItImproved) {
  TableGame game(5, 4, 5);
  TreeOptions options;
  options.playouts = 400;
  options.record = 40;
  TreeResult found = SearchTree(game, options);
  ASSERT_GE(found.recorded.size(), 2u);
  EXPECT_EQ(found.recorded.front().prefix, Prefix{});
  EXPECT_EQ(found.recorded.front().visits, found.root_visits);
  for (const PrefixVisits& at : found.recorded) {
    int64_t sum = 0;
    for (int64_t visits : at.visits) sum += visits;
    EXPECT_GE(sum, options.record);
    EXPECT_LT(at.prefix.size(), game.decisions());
  }
  ASSERT_FALSE(found.improvements.empty());
  EXPECT_EQ(found.improvements.front().playout, 0);
  EXPECT_EQ(found.improvements.front().value, game.Value({}));
  EXPECT_EQ(found.improvements.back().playout, found.found);
  EXPECT_EQ(found.improvements.back().value, found.value);
}

}  // namespace
}  // namespace heddle
