// Private to the files of the expert's estimates (expert_estimate.h).
#pragma once

#include <vector>

#include "search/expert/expert_estimate.h"

namespace heddle {

// What all stages at some degrees have in common.
struct ExpertEstimator::Context {
  const Degrees* degrees = nullptr;
  const std::vector<int>* ends = nullptr;
  PerRecomputePolicy<const ExpertSums*> sums = {};  // by policy; null: not allowed
  const ExpertSums* kept = nullptr;                 // without recomputation
  const ScheduleDef* schedule = nullptr;
  PipelineShape shape;
  HeldBytes dense, expert;  // per element

  // Sums over the blocks of a stage.
  double Of(std::vector<double> ExpertSums::*member, int stage) const {
    return ExpertSums::Of(kept->*member, first(stage), last(stage));
  }
  int first(int stage) const { return stage == 0 ? 0 : (*ends)[static_cast<size_t>(stage) - 1]; }
  int last(int stage) const { return (*ends)[static_cast<size_t>(stage)]; }
};

}  // namespace heddle
