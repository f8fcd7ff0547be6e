// The flags of `heddle train` about checkpoints, and what a checkpoint says of its run.
#pragma once

#include <CLI/CLI.hpp>

#include "base/json.h"
#include "plan/plan.h"
#include "runtime/train.h"

namespace heddle {

struct CheckpointArgs {
  CheckpointOptions options;
  std::string mtbf;  // a duration, as "12h"

  void Add(CLI::App& command);
  // Throws InputError where they contradict each other or the folder.
  CheckpointOptions Resolve() const;
};

// What a run needs to go on, beside its tensors, and what it must agree with (checkpoint/experiment.h).
struct RunSources {
  std::string model;    // as it was given
  std::string weights;  // a file, or "seeded", or "model" where they are the model's own
  std::string data;     // empty: synthetic
};
Json RunJson(const Model& model, const Plan& plan, const TrainOptions& options,
             const RunSources& sources, const DataSource& data);

}  // namespace heddle
