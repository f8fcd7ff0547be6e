// A fleet prepared for a real or simulated run: jobs, machine, models and their shards.
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

constexpr double kFleetReserve =
    0.06;  // fraction of device memory for CUDA contexts and libraries, which the simulator does not model

struct FleetOptions {
  std::string jobs;                // the file of jobs, for errors and relative paths of data
  std::string cluster;             // replaces the cluster of the file unless empty
  double reserve = kFleetReserve;  // fraction of device memory
  int64_t memory_limit = 0;        // of a device, in bytes; 0: its memory less the reserve
  double switch_seconds = 60;      // lost when a job moves to other devices
  std::optional<bool>
      several;  // several devices per job; nullopt: if there are fewer jobs than devices
  bool double_buffering = true;
  std::string spill;    // folder for state that does not fit in host memory; empty: none
  SimOptions sim = {};  // options for the kernels that run
};

// The devices that jobs run on, all of one kind.
struct FleetMachine {
  Cluster cluster;
  DeviceType type;
  int64_t devices = 0;
  int64_t memory = 0;      // of a device, for shards and their buffer
  int64_t host_limit = 0;  // 0: unknown
};

// Throws InputError.
FleetMachine MachineOf(const FleetOptions& options, const FleetSpec& spec);

// The path of a job's data, which is relative to the file of jobs. Empty if the data is synthetic.
std::string DataOf(const std::string& file, const JobSpec& job);

// Loads and analyses the model of a job at its batch. Throws InputError.
using JobModelLoader = std::function<Model(const JobSpec& job)>;

// The models of the jobs, each loaded once, and their shards. Throws InputError, and Infeasible if a job does not fit.
// All arguments must outlive it.
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
  // The plan of a job on one device in shards.
  Plan PlanOf(size_t job) const;
  // Whether jobs may have several devices.
  bool several() const { return several_; }
  // The seconds of each whole job on 2, 4, ... devices, and the plans with the seconds of a step. Only if several().
  const std::vector<JobCurve>& curves() const { return curves_; }
  const PlannedCurve& PlannedOf(size_t job) const { return *of_job_[job]->curve; }
  FleetDevices devices() const;
  // The bytes of device memory for the buffer of the next shard.
  int64_t buffer_bytes() const { return shards_.buffer; }
  // The ends of a job's shards, as numbers of blocks of its model.
  std::vector<int> BlockEnds(size_t job) const;

 private:
  struct ModelKind {
    Model model;
    ModelCosts costs;
    std::optional<PlannedCurve> curve;  // of a step, on several devices
    int64_t batch = 1;
  };

  // Models cut into shards, with the work and the simulated makespan of the jobs.
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
