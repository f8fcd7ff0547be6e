// One job of a fleet that runs for real: its model, data and programs, for shards on one device and for several
// devices.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/pruning.h"
#include "program/job_runner.h"
#include "program/program.h"
#include "runtime/data/data_source.h"
#include "runtime/host_tensors.h"
#include "runtime/shard_job.h"

namespace heddle {

// Runs a job in shards on one device, given by its seat, until its steps are done or `stop` is set
// (fleet/one_device.h). Throws RunError.
using ShardsOnOneSeat =
    std::function<void(ShardRunner& job, int64_t seat, int64_t steps, const std::atomic<bool>& stop,
                       const std::function<void(const StepRecord&)>& on_step)>;

// What all jobs of a fleet share; it outlives them.
struct FleetPlace {
  std::vector<FleetDevice> fleet_devices = {};
  std::vector<int64_t> peaks = {};  // per seat: the peak memory of jobs on several devices
  int64_t threads = 0;              // of the kernels of a device; 0: cores over devices
  std::string folder = {};          // of checkpoints; empty: none
  // Steps from one checkpoint to the next. The default saves only when a job moves from shards to several devices, or
  // to other devices.
  int64_t save_every = std::numeric_limits<int64_t>::max();
  bool override_settings = false;  // resume from checkpoints of jobs with other settings
  HostBudget budget = {};
  ShardsOnOneSeat run_shards = {};
};

// The description of a job. Its model outlives it.
struct FleetJobSpec {
  std::string name;
  size_t number = 0;  // its place in the file of jobs
  const Model* model = nullptr;
  std::string source;         // of the model, as the user gave it
  std::string data;           // a path; empty: made-up data
  double sparsity = 0;        // of pruned weights
  TrainOptions options = {};  // steps, seed and optimizer
  Plan shards = {};           // on one device
  // Plans for 2, 4, ... devices, each with that number; empty: the job always runs on one.
  std::vector<std::pair<int64_t, Plan>> gangs = {};
};

class FleetJob : public JobRunner {
 public:
  // `place` outlives it. Throws InputError.
  FleetJob(FleetPlace& place, FleetJobSpec spec);

  ShardRunner& Shards() override;
  void LetGo() override { shards_.reset(); }
  void Run(int64_t first, int64_t devices, const std::atomic<bool>& stop,
           const std::function<void(const StepRecord&)>& on_step) override;
  int64_t first_step() const override { return first_step_; }
  const std::vector<double>& losses() const override { return losses_; }
  void Add(const StepRecord& record) override { losses_.push_back(record.loss); }

  // The number of visits of a step, in shards.
  int visits() const { return static_cast<int>(program_.RunOf(0).visits.size()); }

 private:
  void MakeMask(double sparsity);
  void SetOptions(const FleetJobSpec& spec);
  TrainInputs Inputs(const Program& program) const;

  FleetPlace& place_;
  const Model& model_;
  TrainOptions options_;
  std::unique_ptr<Mask> mask_;
  std::unique_ptr<DataSource> data_;
  WeightSource weights_;
  ConstantSource constants_;
  Json run_;
  Program program_;                                 // in shards
  std::vector<std::pair<int64_t, Program>> gangs_;  // for 2, 4, ... devices
  std::unique_ptr<ShardRunner> shards_;
  int64_t first_step_ = 0;
  std::vector<double> losses_;
};

}  // namespace heddle
