// What a checkpoint says of its run.
#pragma once

#include <string>

#include "base/json.h"
#include "plan/plan.h"
#include "runtime/train.h"

namespace heddle {

// What a run needs to go on, beside its tensors, and what it must agree with (checkpoint/experiment.h).
struct RunSources {
  std::string model;    // as it was given
  std::string weights;  // a file, or "seeded", or "model" where they are the model's own
  std::string data;     // empty: synthetic
};
Json RunJson(const Model& model, const Plan& plan, const TrainOptions& options,
             const RunSources& sources, const DataSource& data);

}  // namespace heddle
