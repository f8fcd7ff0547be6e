// The options of `heddle train` for checkpoints.
#pragma once

#include <CLI/CLI.hpp>

#include "runtime/checkpoint/run_checkpoints.h"

namespace heddle {

struct CheckpointArgs {
  CheckpointOptions options;
  std::string mtbf;  // mean time between failures, such as "12h"

  void Add(CLI::App& command);
  // Throws InputError if the options contradict each other or the folder.
  CheckpointOptions Resolve() const;
};

}  // namespace heddle
