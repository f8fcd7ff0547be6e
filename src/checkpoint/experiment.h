// Whether a run that goes on from a checkpoint is the experiment that the checkpoint is of.
//
// `run` of a manifest says what the run was asked to do. What changes the result (model, data, seed, optimizer, learning
// rate, batch, precision, mask) must be the same; what does not (plan, number of ranks, where files lie) may differ.
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
    std::string setting;      // as the options name it: "lr", "seed"
    std::string before, now;  // their values, short enough for one line
  };
  std::vector<Change> changes;
  // Settings of this run about which the checkpoint says nothing (an earlier version of heddle wrote it).
  std::vector<std::string> unknown;

  bool empty() const { return changes.empty(); }
  std::string Describe() const;
};

// Both are `run` of a manifest; `before` may be anything, for manifests come from outside. Settings that `now` does not
// have are not compared.
ExperimentChanges CompareExperiments(const Json& before, const Json& now);

}  // namespace heddle
