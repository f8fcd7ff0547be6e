// What `heddle fleet` makes ready before anything runs, for real or simulated: jobs, the machine, models and their shards.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/phases.h"
#include "cluster/cluster.h"
#include "fleet/curve.h"
#include "fleet/jobs.h"
#include "plan/model.h"
#include "plan/plan.h"
#include "report/fleet.h"
#include "search/spilling/shards.h"

namespace heddle {

constexpr double kFleetReserve = 0.06;  // of a device: contexts, libraries, what is not simulated

struct FleetArgs {
  std::string jobs, cluster, policy{AllPolicies().front().name};
  // Of real runs alone.
  std::string memory_limit, device = "cpu", checkpoint, spill;
  int64_t threads = 0, every = 0;
  double reserve = kFleetReserve;
  double switch_seconds = 60;
  std::optional<bool> several;     // not said: where there are fewer jobs than devices
  SimOptions sim = {};             // of the kernels that run
  bool override_settings = false;  // go on from checkpoints of jobs with other settings
  bool simulate = false, no_double_buffering = false, deterministic = false, json = false;
};

const PolicyDef& PolicyOf(const FleetArgs& args);

// What jobs run on: devices of one kind.
struct FleetMachine {
  Cluster cluster;
  DeviceType type;
  int64_t devices = 0;
  int64_t memory = 0;      // of a device, for shards and buffer
  int64_t host_limit = 0;  // 0: not known
};

// Throws InputError.
FleetMachine MachineOf(const FleetArgs& args, const FleetSpec& spec);

// Where a job's data is: relative to the file of jobs. Empty where it is made up.
std::string DataOf(const std::string& file, const JobSpec& job);

// The models of the jobs, each kind once, and how they are cut. Throws InputError, and Infeasible where a job fits in no
// way. All arguments outlive it.
class PreparedFleet {
 public:
  PreparedFleet(const FleetArgs& args, const FleetSpec& spec, const FleetMachine& machine,
                Phases& phases);

  FleetReport Report(const PolicyDef& policy) const;

  const Model& model(size_t job) const { return of_job_[job]->model; }
  const std::vector<JobWork>& works() const { return works_; }
  int64_t host_bytes() const { return host_bytes_; }
  // That of a job on one device, in shards.
  Plan PlanOf(size_t job) const;
  // May jobs have several devices?
  bool several() const { return several_; }
  // Seconds of a whole job on 2, 4, ... devices, and of a step of it with plans for them; only where it may.
  const std::vector<JobCurve>& curves() const { return curves_; }
  const PlannedCurve& PlannedOf(size_t job) const { return *of_job_[job]->curve; }
  FleetDevices devices() const;

 private:
  struct ModelKind {
    Model model;
    ModelCosts costs;
    std::optional<PlannedCurve> curve;  // of a step, on several devices
    int64_t batch = 1;
  };

  // Models cut into shards, and what becomes of them.
  struct Cuts {
    FleetShards shards;
    std::vector<JobWork> works;
    double makespan = 0;
  };

  void FindCurves(Phases& phases);
  void Cut();
  void CutAsPriced(Cuts& out);
  bool FitsHost(const std::vector<JobWork>& works) const;
  std::vector<int> BlockEnds(size_t job) const;
  std::pair<int64_t, int> MostOfAll() const;

  const FleetArgs& args_;
  const FleetSpec& spec_;
  const FleetMachine& machine_;
  std::map<std::tuple<std::string, int64_t, std::string, DType, double>, ModelKind> kinds_;
  std::vector<ModelKind*> of_job_;
  FleetShards shards_;
  std::vector<JobWork> works_;
  int64_t host_bytes_ = 0;
  bool several_ = false;
  std::vector<JobCurve> curves_;  // per job
};

}  // namespace heddle
