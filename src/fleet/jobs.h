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
// Any key of a job but its name may be a list or a range. A job with several such keys stands for all combinations, the
// last key of kGridKeys varying fastest. The job above stands for six jobs, "xl batch=16 lr=1e-05" being the first.
// `defaults` has keys for all jobs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/halving.h"
#include "graph/dtype.h"

namespace heddle {

constexpr int64_t kMaxJobs = 1000;  // per file, after grids are expanded

struct JobSpec {
  std::string name;
  std::string model;  // a MODEL, as on the command line
  std::string data;   // a path; empty: synthetic
  int64_t batch = 0;  // 0: the model's own
  int64_t steps = 0;  // 0: given by epochs and samples
  double epochs = 0;
  int64_t samples = 0;  // per epoch
  int64_t priority = 0;
  int64_t seed = 0;
  std::string optimizer = "adamw";  // sgd, momentum, adam, adamw
  double lr = 1e-3, weight_decay = 0.1, momentum = 0.9;
  double sparsity = 0;  // fraction of pruned weights
  DType precision = DType::kF32;
  int line = 0;  // in the file

  bool operator==(const JobSpec&) const = default;
};

// The number of steps of a job at a batch size.
int64_t StepsOf(const JobSpec& job, int64_t batch);

struct FleetSpec {
  std::string cluster;      // a CLUSTER, as on the command line, or empty
  int64_t devices = 0;      // the first devices of the cluster; 0: all
  int64_t host_memory = 0;  // bytes; 0: the memory of the machine
  std::vector<JobSpec> jobs;
  std::optional<HalvingRule> halving;

  bool operator==(const FleetSpec&) const = default;
};

// Throws InputError "what:line: field: value: remedy" if the text is not a valid file of jobs or has more than kMaxJobs
// jobs.
FleetSpec JobsFromYaml(std::string_view text, std::string_view what);

}  // namespace heddle
