// A fleet made ready before anything runs, for real or simulated: jobs, the machine, models and their shards.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/cluster.h"
#include "fleet/curve.h"
#include "fleet/jobs.h"
#include "fleet/simulate.h"
#include "plan/model.h"
#include "plan/plan.h"
#include "search/spilling/shards.h"

namespace heddle {

constexpr double kFleetReserve = 0.06;  // of a device: contexts, libraries, what is not simulated

struct FleetOptions {
  std::string jobs;                // the file, for errors; data is found beside it
  std::string cluster;             // in place of what the file says; empty: that
  double reserve = kFleetReserve;  // of a device's memory
  int64_t memory_limit = 0;        // of a device, in bytes; 0: what it has, less the reserve
  double switch_seconds = 60;      // that a job loses when its devices change
  std::optional<bool>
      several;  // devices per job; not said: where there are fewer jobs than devices
  bool double_buffering = true;
  std::string spill;    // folder for what the host's memory does not hold; empty: none
  SimOptions sim = {};  // of the kernels that run
};

// What jobs run on: devices of one kind.
struct FleetMachine {
  Cluster cluster;
  DeviceType type;
  int64_t devices = 0;
  int64_t memory = 0;      // of a device, for shards and buffer
  int64_t host_limit = 0;  // 0: not known
};

// Throws InputError.
FleetMachine MachineOf(const FleetOptions& options, const FleetSpec& spec);

// Where a job's data is: relative to the file of jobs. Empty where it is made up.
std::string DataOf(const std::string& file, const JobSpec& job);

// Who reads models: the model of a job at its batch, analysed. Throws InputError.
using JobModelLoader = std::function<Model(const JobSpec& job)>;

// The models of the jobs, each kind once, and how they are cut. Throws InputError, and Infeasible where a job fits in no
// way. All arguments outlive it.
class PreparedFleet {
 public:
  PreparedFleet(const FleetOptions& options, const FleetSpec& spec, const FleetMachine& machine,
                const JobModelLoader& load,
                const std::function<void(const std::string& what)>& progress);

  const FleetOptions& options() const { return options_; }
  const FleetSpec& spec() const { return spec_; }
  const FleetMachine& machine() const { return machine_; }
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
  // Bytes of a device's memory for the shard that comes next.
  int64_t buffer_bytes() const { return shards_.buffer; }
  // Where a job's shards end, in blocks of its model.
  std::vector<int> BlockEnds(size_t job) const;

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

  void FindCurves(const std::function<void(const std::string& what)>& progress);
  void Cut();
  void CutAsPriced(Cuts& out);
  bool FitsHost(const std::vector<JobWork>& works) const;
  std::pair<int64_t, int> MostOfAll() const;

  const FleetOptions& options_;
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
