// The flags of `heddle train` about checkpoints.
#pragma once

#include <CLI/CLI.hpp>

#include "runtime/checkpoint/run_checkpoints.h"

namespace heddle {

struct CheckpointArgs {
  CheckpointOptions options;
  std::string mtbf;  // a duration, as "12h"

  void Add(CLI::App& command);
  // Throws InputError where they contradict each other or the folder.
  CheckpointOptions Resolve() const;
};

}  // namespace heddle
