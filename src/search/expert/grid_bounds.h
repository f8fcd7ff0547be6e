// Quick lower bounds for the points of the expert's grid, from the prices of one device.
#pragma once

#include <memory>
#include <vector>

#include "search/expert/expert_estimate.h"

namespace heddle {

class GridBounds {
 public:
  // The task must outlive it.
  GridBounds(const SearchTask& task, std::shared_ptr<ExpertEstimator> estimator);

  // Finds what bounds are made of, and removes points from the grid with more expert ranks than
  // experts. False where the model has no prices.
  bool Find(std::vector<Degrees>& grid);

  // A lower bound on the step: the work of the batch on one device at the best micro-batch size,
  // divided evenly, with the schedule's bubble.
  double LeastSeconds(const Degrees& d) const;

  // Do weights and state exceed the devices' memory even if stages are equal and tp splits everything?
  bool IsTooLarge(const Degrees& d) const;

  double parameters() const { return parameters_; }  // elements of the model

 private:
  const ExpertSums* Priced(int64_t ep, double samples) const;

  const SearchTask& task_;
  std::shared_ptr<ExpertEstimator> estimator_;
  double limit_;
  double whole_ = 0;                        // seconds of the batch on one device
  double parameters_ = 0, of_experts_ = 0;  // elements; of these, those that ep spreads
};

}  // namespace heddle
