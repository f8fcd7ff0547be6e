// The flags about ranks that fail, and what a run with a supervisor shows at its end.
#pragma once

#include <CLI/CLI.hpp>

#include "host/supervisor/supervise.h"

namespace heddle {

struct SuperviseArgs {
  SuperviseOptions options;

  void Add(CLI::App& command);
  bool Given() const { return options.restarts > 0 || options.elastic; }
  // Throws InputError for what makes no sense.
  void Check(bool has_checkpoints) const;

 private:
  const CLI::Option* min_ranks_option_ = nullptr;
};

// A line on standard error, as of any error.
void PrintFailure(const std::string& what);

// Runs it and prints its goodput, or with `json` the result of all attempts together. `began` is when the command did,
// seconds of the steady clock. Returns the exit status.
int SuperviseAndShow(const SuperviseArgs& args, SupervisedRun run, double began, bool json);

}  // namespace heddle
