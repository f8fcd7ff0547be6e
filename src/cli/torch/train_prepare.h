// A training run prepared from its command line. Preparing it finds every mistake in the input before a rank starts.
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

// What training starts from, and on what.
struct StartArgs {
  std::string data, weights, mask;
  std::string init = "file";
  int64_t seed = 0;
  bool fill_constants = false;
};

struct EvaluationArgs {
  std::string data;   // empty: no held-out data
  int64_t every = 0;  // 0: a tenth of the steps
  int64_t steps = 10;
  const CLI::Option *every_given = nullptr, *steps_given = nullptr;
};

// How ranks use their devices.
struct DeviceArgs {
  std::string name = "cpu", memory_limit;
  bool eager = false, no_double_buffering = false, deterministic = false;
};

struct OutputArgs {
  std::string trace, reference;
  MetricsOptions metrics;
  bool kernels = false;
  int64_t log_every = 0;  // 0: chosen by the number of steps
};

struct TrainArgs {
  ModelArgs model;
  std::string plan_model, cluster;
  DegreeArgs degrees;
  int64_t np = 0;  // 0: not given
  TrainOptions train;
  std::vector<double> betas = {0.9, 0.95};
  const CLI::Option* optimizer = nullptr;
  StartArgs start;
  EvaluationArgs evaluation;
  DeviceArgs device;
  OutputArgs output;
  RankOptions ranks;
  CheckpointArgs checkpoint;
  SuperviseArgs supervise;
  ProfileArgs profile;
};

struct PreparedRun : ReadyRun {
  SimOptions prediction;
};

// A rank that a supervisor started (`member` is not null) runs the supervisor's plan. Throws InputError.
PreparedRun Prepare(const TrainArgs& args, const Membership* member);

// The simulator's options for heddle's own kernels on a device: what they save for backward and which are fused.
SimOptions SimOf(const std::string& device);

}  // namespace heddle
