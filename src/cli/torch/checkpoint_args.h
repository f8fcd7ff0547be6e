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

// What a run needs to go on, beside its tensors.
Json RunJson(const Model& model, const Plan& plan, const TrainOptions& options,
             const std::string& source, const std::string& data_path, const DataSource& data);

}  // namespace heddle
