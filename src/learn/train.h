// Learning by play, after AlphaZero: search with the network, then make the network say at once what the search found.
//
// A round: games on fresh models and clusters, each a few tree searches with noise at the root, the root stepping down by
// what was visited; then some steps of Adam on what was seen lately. What the network should say of a prefix is in part
// how often the search visited each action, and for the most part which actions lead to the best strategies simulated in
// that game (a few percent slower: much less likely). The same options give the same weights, bit for bit, on one machine,
// where no clock is asked.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "learn/contest.h"
#include "learn/network.h"

namespace heddle {

// A model and a cluster for a seed; called from several threads. Lessons with nothing to search are passed over.
using LessonMaker = std::function<Lesson(uint64_t seed)>;

struct Example {
  Features features;
  std::vector<float> target;  // per action, sum 1
};

struct RoundReport {
  int64_t round = 0;     // done
  int64_t examples = 0;  // seen so far
  double loss = 0;       // mean of the round, less what no prior could be below
};

struct LearnOptions {
  NetworkSizes sizes = {};
  uint64_t seed = 0;
  int64_t rounds = 100;
  size_t games = 16;       // of a round
  int64_t playouts = 160;  // of a game's first search; half of it for those after
  int searches = 3;
  int updates = 48;  // of a round
  size_t batch = 48;
  size_t kept = 6000;  // examples
  double lr = 2e-3;    // over the root of 1 + updates / 400
  double noise = 0.25;
  // After every round; false: that was the last.
  std::function<bool(const RoundReport& report, PriorNetwork& network)> after = nullptr;
};

PriorNetwork LearnPrior(const LessonMaker& lesson, const LearnOptions& options);

// Its parts. What one game shows; nothing where there is nothing to search.
std::vector<Example> Play(const Lesson& lesson, const PriorNetwork& network,
                          const LearnOptions& options, uint64_t seed);

// Adam on the cross-entropy of what the network says.
class Learner {
 public:
  explicit Learner(PriorNetwork& network);
  // One step; gives the mean of cross-entropy less entropy before it.
  double Step(const std::vector<const Example*>& batch, double lr);

 private:
  PriorNetwork& network_;
  std::vector<at::Tensor> weights_, first_, second_;
  int64_t steps_ = 0;
};

}  // namespace heddle
