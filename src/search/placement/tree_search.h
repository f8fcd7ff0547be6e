// Monte Carlo tree search over a sequence of decisions that have the same actions.
//
// A node of the tree is a prefix of decisions. The game completes every prefix to a whole strategy,
// so leaves have values without random playouts. A child is chosen by Q + c P sqrt(N) / (1 + n): Q
// is the mean value seen below it, P its prior, N and n the visits of the parent and of the child,
// c the square root of a tenth of the number of actions. An unvisited child has its parent's own
// value. Leaves are chosen in batches, in which pending visits count as losses, and are valued
// together. The same seed gives the same tree on any number of cores.
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
  // Values of prefixes, higher is better; usually 0 for the empty prefix.
  virtual std::vector<double> Values(const std::vector<Prefix>& prefixes) = 0;
  // For each incomplete prefix: a probability for each action of the next decision.
  virtual std::vector<std::vector<double>> Priors(const std::vector<Prefix>& prefixes) = 0;
};

struct TreeOptions {
  int64_t playouts = 800;
  size_t batch = 8;  // leaves valued together
  Prefix root = {};  // the search starts from this prefix
  double noise = 0;  // share of a random prior that is mixed into the root's prior, for learning
  uint64_t seed = 0;
  std::function<bool()> over = nullptr;  // returns true to stop
  int64_t record = 0;  // record the visits of prefixes that have at least this many; 0: none
};

// How often each action of the decision after a prefix was taken.
struct PrefixVisits {
  Prefix prefix;
  std::vector<int64_t> visits;
};

struct TreeResult {
  Prefix best;
  double value = 0;
  int64_t playouts = 0;              // number of playouts
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
