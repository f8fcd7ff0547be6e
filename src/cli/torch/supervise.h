// The options for failing ranks, and the output of a run with a supervisor at its end.
#pragma once

#include <CLI/CLI.hpp>

#include "host/supervisor/supervise.h"

namespace heddle {

struct SuperviseArgs {
  SuperviseOptions options;

  void Add(CLI::App& command);
  bool Given() const { return options.restarts > 0 || options.elastic; }
  // Throws InputError if the options contradict each other.
  void Check(bool has_checkpoints) const;

 private:
  const CLI::Option* min_ranks_option_ = nullptr;
};

// Prints an error message to standard error.
void PrintFailure(const std::string& what);

// Runs under a supervisor and prints the goodput or, with `json`, the result of all attempts together. `began` is the
// start of the command in seconds of the steady clock. Returns the exit status.
int SuperviseAndShow(const SuperviseArgs& args, SupervisedRun run, double began, bool json);

}  // namespace heddle
