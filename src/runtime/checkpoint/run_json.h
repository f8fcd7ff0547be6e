// The description of a run that its checkpoints store.
#pragma once

#include <string>

#include "base/json.h"
#include "plan/plan.h"
#include "runtime/train.h"

namespace heddle {

// Everything besides tensors that is needed to resume a run, and all settings that must stay the same
// (checkpoint/experiment.h).
struct RunSources {
  std::string model;    // as given on the command line
  std::string weights;  // a file, or "seeded", or "model" where they are the model's own
  std::string data;     // empty: synthetic
};
Json RunJson(const Model& model, const Plan& plan, const TrainOptions& options,
             const RunSources& sources, const DataSource& data);

}  // namespace heddle
