// A training run made ready from its command line: all that can be wrong with the input has been looked at.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/plan_args.h"
#include "cli/profile_args.h"
#include "cli/torch/checkpoint_args.h"
#include "cli/torch/supervise.h"
#include "cli/torch/train_screen.h"
#include "host/supervisor/member.h"
#include "runtime/ranks.h"
#include "runtime/ready_run.h"
#include "runtime/train.h"
#include "sim/options.h"

namespace heddle {

struct TrainArgs {
  ModelArgs model;
  DegreeArgs degrees;
  TrainOptions train;
  std::vector<double> betas = {0.9, 0.95};
  std::string plan_model, cluster, data, weights, mask, reference, trace, memory_limit;
  std::string eval_data;   // empty: nothing is held out
  int64_t eval_every = 0;  // 0: as suits the number of steps
  int64_t eval_steps = 10;
  const CLI::Option *eval_every_given = nullptr, *eval_steps_given = nullptr;
  std::string init = "file", device = "cpu";
  bool eager = false, kernels = false, no_double_buffering = false, deterministic = false;
  MetricsOptions metrics;
  RankOptions ranks;
  CheckpointArgs checkpoint;
  SuperviseArgs supervise;
  ProfileArgs profile;
  int64_t seed = 0;
  int64_t np = 0;         // 0: not given
  int64_t log_every = 0;  // 0: as suits the number of steps
  bool fill_constants = false;
  const CLI::Option* optimizer = nullptr;
};

struct PreparedRun : ReadyRun {
  SimOptions prediction;
};

// A rank (`member`) runs the plan of its supervisor. Throws InputError.
PreparedRun Prepare(const TrainArgs& args, const Membership* member);

// What our kernels keep and need, to predict steps of them.
SimOptions SimOf(const std::string& device);

}  // namespace heddle
