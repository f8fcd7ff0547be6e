// One job of a fleet that runs for real: what it is trained from, in shards and on several devices.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/fleet_prepare.h"
#include "fleet/gangs.h"
#include "plan/pruning.h"
#include "program/program.h"
#include "runtime/data/data_source.h"
#include "runtime/shard_job.h"

namespace heddle {

// What all jobs of a fleet share; it outlives them.
struct FleetPlace {
  const FleetArgs& args;
  const FleetMachine& machine;
  const PolicyDef& policy;
  std::string folder = {};  // of checkpoints; empty: none
  std::vector<FleetDevice> fleet_devices = {};
  std::vector<int64_t> peaks = {};  // per fleet_device: the most that it held for several devices
  HostBudget budget = {};
};

class FleetJob : public GangRunner {
 public:
  // Throws InputError with the job's line.
  FleetJob(FleetPlace& place, const PreparedFleet& prepared, const JobSpec& spec, size_t number);

  // In shards, from where it stands. It is to be let go before the job runs on several devices.
  ShardRunner& Shards();
  void LetGo() { shards_.reset(); }

  void Run(int64_t first, int64_t devices, const std::atomic<bool>& stop,
           const std::function<void(const StepRecord&)>& on_step) override;

  int visits() const { return static_cast<int>(program_.RunOf(0).visits.size()); }
  // Steps that were saved when the fleet began.
  int64_t first_step() const { return first_step_; }
  // Of all its steps so far, those of earlier runs included.
  const std::vector<double>& losses() const { return losses_; }
  void Add(const StepRecord& record) { losses_.push_back(record.loss); }

 private:
  void MakeMask(const WeightSource& weights, double sparsity);
  void SetOptions(const JobSpec& spec, int64_t steps, size_t number);
  TrainInputs Inputs(const Program& program) const;
  void RunAlone(int64_t fleet_device, const std::atomic<bool>& stop,
                const std::function<void(const StepRecord&)>& on_step);

  FleetPlace& place_;
  const Model& model_;
  std::unique_ptr<Mask> mask_;
  std::unique_ptr<DataSource> data_;
  WeightSource weights_;
  ConstantSource constants_;
  Json run_;
  Program program_;                                 // in shards
  std::vector<std::pair<int64_t, Program>> gangs_;  // for 2, 4, ... devices
  TrainOptions options_;
  std::unique_ptr<ShardRunner> shards_;
  int64_t first_step_ = 0;
  std::vector<double> losses_;
};

}  // namespace heddle
