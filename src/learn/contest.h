// One model on one cluster, searched with several priors: who finds the best placement in fewer playouts?
//
//   Contest contest(lesson);
//   TreeResult mine = contest.Run(*network, 1200), plain = contest.Run(*UniformPrior(), 1200);
//   contest.PlayoutsToBest(mine), contest.PlayoutsToBest(plain)      // until within 1 % of the best either found
//
// Trees start from data parallelism. What was simulated in one run is known in the next, which changes nothing but time.
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

  // Whether there is anything to search: data parallelism fits, and there is more than one action.
  bool IsOpen() const;
  PlacementGame& game() { return *game_; }
  const Placements& space() const { return *space_; }

  TreeResult Run(Prior& prior, const TreeOptions& options);
  TreeResult Run(Prior& prior, int64_t playouts);

  double BestSeconds() const;  // of all that was simulated and fits
  // The playout that first came within that part of the best known; at least 1, and `most` where none did before that.
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
