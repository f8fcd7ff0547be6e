// Monte Carlo tree search over decisions in a row, each with the same actions.
//
// A node of the tree is a prefix of decisions, and every prefix is a whole strategy (the game completes it), so leaves
// have values of their own and nothing is played out at random. A child is chosen by Q + c P sqrt(N) / (1 + n): the mean
// value of what was seen below it, its prior, visits of the parent and of it; c is the root of a tenth of the number of
// actions. A child not seen yet counts as its parent's own value. Leaves are chosen in batches, those under way counted
// as visits that lost, and valued together: the same seed gives the same tree, however many cores there are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace heddle {

using Prefix = std::vector<int>;  // actions of the first decisions

class TreeGame {
 public:
  virtual ~TreeGame() = default;
  virtual size_t decisions() const = 0;
  virtual size_t actions() const = 0;
  // What prefixes are worth, higher is better; the empty one is worth 0 in most games.
  virtual std::vector<double> Values(const std::vector<Prefix>& prefixes) = 0;
  // For each prefix that is not whole: a probability for each action of the next decision.
  virtual std::vector<std::vector<double>> Priors(const std::vector<Prefix>& prefixes) = 0;
};

struct TreeOptions {
  int64_t playouts = 800;
  size_t batch = 8;  // leaves valued together
  Prefix root = {};  // the search is below this
  double noise = 0;  // share of a random prior mixed into the root's: for learning
  uint64_t seed = 0;
  std::function<bool()> over = nullptr;  // true: end now
  int64_t record =
      0;  // of prefixes with so many visits below them, say how these were spread; 0: of none
};

// How often each action of the decision after a prefix was taken.
struct PrefixVisits {
  Prefix prefix;
  std::vector<int64_t> visits;
};

struct TreeResult {
  Prefix best;
  double value = 0;
  int64_t playouts = 0;              // of them
  int64_t found = 0;                 // the playout that found the best
  std::vector<int64_t> root_visits;  // per action of the root
  std::vector<PrefixVisits> recorded;
  struct Improvement {
    int64_t playout = 0;
    double value = 0;
  };
  std::vector<Improvement>
      improvements;  // of the best, in order; playout 0 is the root's own value
};

TreeResult SearchTree(TreeGame& game, const TreeOptions& options);

}  // namespace heddle
