// Predictions of published runs. Each run is configured, lowered and simulated like any other plan.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost/terms.h"
#include "validate/published_runs.h"

namespace heddle {

struct Prediction {
  std::string id, source, stack, device;
  bool complete = false;  // everything that a plan needs is published
  std::string reason;     // why there is no prediction or no measurement; empty if there are both
  std::optional<double> measured;  // seconds per step
  std::optional<double> predicted;
  std::optional<double> measured_memory, predicted_memory;  // bytes
  Terms critical;                                           // terms of the predicted step
  double bubble = 0, exposed = 0;
  std::vector<std::string> remarks;

  // (predicted - measured) / measured.
  std::optional<double> error() const {
    if (!measured || !predicted) return {};
    return (*predicted - *measured) / *measured;
  }
};

Prediction Predict(const PublishedRun& run);

// Predicts all runs on `threads` threads. Calls `done` after each run, one call at a time.
std::vector<Prediction> PredictAll(const std::vector<PublishedRun>& runs, int threads,
                                   const std::function<void(size_t)>& done = nullptr);

}  // namespace heddle
