// Compares priors on one problem (a model on a cluster): which one finds the best placement in fewer playouts.
//
//   Contest contest(lesson);
//   TreeResult mine = contest.Run(*network, 1200), plain = contest.Run(*UniformPrior(), 1200);
//   contest.PlayoutsToBest(mine), contest.PlayoutsToBest(plain)      // until within 1 % of the best of both
//
// Trees start from data parallelism. Simulated strategies are cached between runs, which only saves time.
#pragma once

#include <cstdint>
#include <memory>

#include "search/placement/placement_game.h"

namespace heddle {

struct Lesson {
  Model model;
  Cluster cluster;
};

class Contest {
 public:
  // The lesson must outlive it.
  explicit Contest(const Lesson& lesson);
  ~Contest();
  Contest(const Contest&) = delete;
  Contest& operator=(const Contest&) = delete;

  // True if the problem can be searched: data parallelism fits, and there is more than one action.
  bool IsOpen() const;
  PlacementGame& game() { return *game_; }
  const Placements& space() const { return *space_; }

  TreeResult Run(Prior& prior, const TreeOptions& options);
  TreeResult Run(Prior& prior, int64_t playouts);

  double BestSeconds() const;  // of all simulated strategies that fit
  // The first playout with a strategy within this fraction of the best known one. At least 1; `most` if there is none
  // before.
  int64_t PlayoutsToBest(const TreeResult& result, double within = 0.01, int64_t most = 800) const;

 private:
  class Changing;
  SearchProblem problem_;
  Model computed_;
  std::unique_ptr<Placements> space_;
  std::unique_ptr<Changing> prior_;
  std::unique_ptr<PlacementGame> game_;
};

}  // namespace heddle
