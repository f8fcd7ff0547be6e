// Training by self-play, after AlphaZero: the tree search uses the network, then the network is trained to predict the
// result of the search.
//
// A round plays games on new models and clusters, then makes some steps of Adam on recent examples. A game has a few
// tree searches with noise at the root; the root moves down to an action drawn by visits. The target for a prefix is in
// part the visit counts of its actions, but mostly which actions lead to the best strategies simulated in that game
// (strategies that are a few percent slower are much less likely). The same options give bitwise equal weights on one
// machine, unless the time limits training.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "learn/contest.h"
#include "learn/network.h"

namespace heddle {

// Makes a model and a cluster for a seed. Called from several threads. Lessons without anything to search are skipped.
using LessonMaker = std::function<Lesson(uint64_t seed)>;

struct Example {
  Features features;
  std::vector<float> target;  // of each action, sum 1
};

struct RoundReport {
  int64_t round = 0;     // number of finished rounds
  int64_t examples = 0;  // seen so far
  double loss = 0;       // mean cross-entropy of the round less the entropy of the targets
};

struct LearnOptions {
  NetworkSizes sizes = {};
  uint64_t seed = 0;
  int64_t rounds = 100;
  size_t games = 16;       // per round
  int64_t playouts = 160;  // in the first search of a game; later searches have half as many
  int searches = 3;
  int updates = 48;  // steps of Adam per round
  size_t batch = 48;
  size_t recent_examples = 6000;  // the examples to train on are drawn from these
  double lr = 2e-3;               // divided by sqrt(1 + updates / 400)
  double noise = 0.25;
  // Called after every round. Returns false to stop.
  std::function<bool(const RoundReport& report, PriorNetwork& network)> after = nullptr;
};

PriorNetwork LearnPrior(const LessonMaker& lesson, const LearnOptions& options);

// The parts of Learn. Play returns the examples of one game; none if there is nothing to search.
std::vector<Example> Play(const Lesson& lesson, const PriorNetwork& network,
                          const LearnOptions& options, uint64_t seed);

// Minimises the cross-entropy of the priors with Adam.
class Learner {
 public:
  explicit Learner(PriorNetwork& network);
  // Makes one step. Returns the mean of cross-entropy less entropy before the step.
  double Step(const std::vector<const Example*>& batch, double lr);

 private:
  PriorNetwork& network_;
  std::vector<at::Tensor> weights_, first_, second_;
  int64_t steps_ = 0;
};

}  // namespace heddle
