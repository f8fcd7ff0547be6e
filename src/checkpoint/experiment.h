// Compares a run that resumes from a checkpoint with the experiment of the checkpoint.
//
// `run` of a manifest has the settings of the run. Settings that change the result (model, data, seed, optimizer,
// learning rate, batch, precision, mask) must be the same; others (plan, number of ranks, paths of files) may differ.
//
//   ExperimentChanges changes = CompareExperiments(manifest.run, run);
//   if (!changes.empty()) ThrowInput("...: {}", changes.Describe());     // "lr was 0.001 and is 0.01; seed was ..."
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace heddle {

struct ExperimentChanges {
  struct Change {
    std::string setting;      // named as the option: "lr", "seed"
    std::string before, now;  // their values, short enough for one line
  };
  std::vector<Change> changes;
  // Settings of this run that the checkpoint does not have, because an earlier version of heddle wrote it.
  std::vector<std::string> unknown;

  bool empty() const { return changes.empty(); }
  std::string Describe() const;
};

// Both arguments are `run` of a manifest. `before` may be any JSON, because manifests are untrusted input. Settings
// that `now` does not have are not compared.
ExperimentChanges CompareExperiments(const Json& before, const Json& now);

}  // namespace heddle
