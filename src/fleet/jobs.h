// Jobs as a YAML file; docs/fleet.md describes the schema.
//
//   cluster: dgx-v100:1
//   jobs:
//     - name: xl
//       model: gpt2-xl:seq=512
//       batch: [16, 8]                               a list: a job for each
//       lr: {from: 1e-5, to: 1e-3, factor: 10}       1e-5, 1e-4, 1e-3
//       epochs: 1
//       samples: 4688
//
// Any key of a job but its name may be a list or a range; jobs with several such keys are their product, the last key of
// kGridKeys fastest. This one is six jobs, "xl batch=16 lr=1e-05" the first. `defaults` has keys for all jobs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/halving.h"
#include "graph/dtype.h"

namespace heddle {

constexpr int64_t kMaxJobs = 1000;  // of a file, after grids are expanded

struct JobSpec {
  std::string name;
  std::string model;  // a MODEL as the command line takes it
  std::string data;   // a path, or empty: made up
  int64_t batch = 0;  // 0: the model's own
  int64_t steps = 0;  // 0: by epochs and samples
  double epochs = 0;
  int64_t samples = 0;  // of an epoch
  int64_t priority = 0;
  int64_t seed = 0;
  std::string optimizer = "adamw";  // sgd, momentum, adam, adamw
  double lr = 1e-3, weight_decay = 0.1, momentum = 0.9;
  double sparsity = 0;  // of pruned weights
  DType precision = DType::kF32;
  int line = 0;  // of the file

  bool operator==(const JobSpec&) const = default;
};

// Steps of a job at a batch.
int64_t StepsOf(const JobSpec& job, int64_t batch);

struct FleetSpec {
  std::string cluster;      // a CLUSTER, or empty
  int64_t devices = 0;      // of it, the first so many; 0: all
  int64_t host_memory = 0;  // bytes; 0: what the machine has
  std::vector<JobSpec> jobs;
  std::optional<HalvingRule> halving;

  bool operator==(const FleetSpec&) const = default;
};

// Throws InputError "what:line: field: value: remedy" for anything that is not a sound file of jobs, and for grids of
// more than kMaxJobs.
FleetSpec JobsFromYaml(std::string_view text, std::string_view what);

}  // namespace heddle
