// Many models on few devices. All figures are simulated; nothing here runs a model.
//
//   policies    against the exact optimum of small random fleets
//   hydra       the workloads of Hydra (arXiv 2110.08633) on 8 devices of 11 and of 16 GB: 12 GPT-2 XL and 12 ViT
//               tasks, compared with model parallelism, pipelining one model after the other, and a model per device if
//               it fits
//
//   spase       grids of jobs like Saturn's (arXiv 2309.01226) on 8 and 16 A100: devices are divided among jobs by
//               their curves from the planner, compared with one job at a time on all devices and an equal split; and
//               the solver's time
//
//   build/bench/fleet [policies] [hydra] [spase]      (default: all)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "cluster/load.h"
#include "cluster/select.h"
#include "cluster/topology.h"
#include "fleet/curve.h"
#include "fleet/job_work.h"
#include "fleet/random_jobs.h"
#include "fleet/simulate.h"
#include "fleet/widen.h"
#include "fleet_policies.h"
#include "fleet_tasks.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "search/spilling/shards.h"
#include "sim/simulate.h"
#include "timing.h"

namespace heddle {
namespace {

constexpr double kReserve = 0.06;  // for contexts and libraries, as in the search

// A step of a model with a stage on each device, and whether it fits.
struct Staged {
  double step = 0;
  bool fits = false;
};
Staged InStages(const Model& model, const Cluster& cluster, int64_t stages, int64_t microbatches,
                int64_t cap) {
  Plan plan = ExpertPlan(model, cluster,
                         {.pp = stages,
                          .microbatches = microbatches,
                          .schedule = "gpipe",
                          .recompute = RecomputePolicy::kFull});
  SetOptimizer(plan, "sgd");
  Program program = Lower(model, plan);
  SimResult result = Simulate(program, cluster, {});
  Staged out{result.step_seconds, true};
  for (const DeviceResult& device : result.devices) {
    out.fits = out.fits && device.peak_memory <= cap;
  }
  return out;
}

struct TaskCosts {
  ModelCosts costs;
  Staged pipeline, alone;
  JobCurve curve;  // seconds of a step
};

// The makespan if each job runs whole on one device, longest first.
double TaskParallel(std::vector<double> seconds, int64_t devices) {
  std::sort(seconds.rbegin(), seconds.rend());
  std::vector<double> free(static_cast<size_t>(devices), 0);
  for (double s : seconds) *std::min_element(free.begin(), free.end()) += s;
  return *std::max_element(free.begin(), free.end());
}

TaskCosts CostsOf(const BenchTask& task, const Cluster& cluster, int64_t cap) {
  Model model = Analyse(LoadModel(task.model));
  TaskCosts out;
  out.costs = FindModelCosts(model, cluster, {.optimizer = "sgd"});  // SGD as in Hydra
  out.pipeline = InStages(model, cluster, 8, 4, cap);
  out.alone = InStages(model, Select(cluster, {0}), 1, 1, cap);
  return out;
}

// A step in which every shard stays on its own device. One device is busy at a time, with the same runs and
// recomputation, and activations and gradients are copied over the link between devices.
double OnADeviceEach(const JobWork& job, const FleetDevices& devices) {
  double seconds = StepSeconds(job);
  for (const ShardRun& run : job.runs) {
    seconds += static_cast<double>(run.boundary_out) / devices.host_bandwidth;
  }
  return seconds;
}

// The planner's curves of the tasks on 2, 4 and 8 devices.
std::vector<JobCurve> CurvesOf(const std::vector<BenchTask>& tasks,
                               std::map<std::string, TaskCosts>& costs, const Cluster& cluster) {
  std::vector<JobCurve> curves;
  for (const BenchTask& task : tasks) {
    JobCurve& curve = costs[task.model].curve;
    if (curve.name.empty()) {
      curve = FindCurve(Analyse(LoadModel(task.model)), cluster,
                        {.optimizer = "sgd", .precision = DType::kF32, .least_devices = 2})
                  .curve;
      curve.name = task.model;
    }
    curves.push_back(curve);
    for (CurvePoint& point : curves.back().points) {
      point.seconds *= static_cast<double>(task.steps());
    }
  }
  return curves;
}

// Jobs on several devices from some time on, with 60 s per switch.
WideFleet Widened(const std::vector<JobWork>& jobs, const FleetDevices& devices,
                  const std::vector<JobCurve>& curves) {
  return WidenFleet(jobs, devices, *FindPolicy("lrtf"), curves, 60);
}

// Prints baselines, relative to shards only and to several devices per job.
void PrintBaselines(const std::vector<BenchTask>& tasks,
                    const std::map<std::string, TaskCosts>& costs, const std::vector<JobWork>& jobs,
                    const std::vector<JobCurve>& curves, const FleetDevices& devices) {
  double shards = SimulateFleet(jobs, devices, *FindPolicy("lrtf")).makespan;
  WideFleet wide = Widened(jobs, devices, curves);
  fmt::print(
      "  several devices per job from {:.0f} s on: makespan {:.0f} s, bound {:.0f} s: {:+.2f} %\n",
      wide.from, wide.makespan, wide.bound, 100 * (wide.makespan / wide.bound - 1));
  double naive = 0, pipeline = 0;
  bool pipeline_fits = true;
  std::vector<double> alone;
  std::vector<JobWork> fitting;
  std::vector<JobCurve> fitting_curves;
  for (size_t t = 0; t < tasks.size(); ++t) {
    const TaskCosts& at = costs.at(tasks[t].model);
    auto steps = static_cast<double>(tasks[t].steps());
    naive += OnADeviceEach(jobs[t], devices) * steps;
    pipeline += at.pipeline.step * steps;
    pipeline_fits = pipeline_fits && at.pipeline.fits;
    if (!at.alone.fits) continue;
    alone.push_back(at.alone.step * steps);
    fitting.push_back(jobs[t]);
    fitting_curves.push_back(curves[t]);
  }
  fmt::print("  how many times as long               seconds    shards   several\n");
  fmt::print("    model parallelism, in turn       {:>9.0f} {:>8.2f}x {:>8.2f}x\n", naive,
             naive / shards, naive / wide.makespan);
  fmt::print("    gpipe with 4 chunks, in turn     {:>9.0f} {:>8.2f}x {:>8.2f}x{}\n", pipeline,
             pipeline / shards, pipeline / wide.makespan,
             pipeline_fits ? "" : "  (some would not fit)");
  if (alone.empty()) {
    fmt::print("    a model per device               none fits\n");
    return;
  }
  double parallel = TaskParallel(alone, devices.devices);
  double same = SimulateFleet(fitting, devices, *FindPolicy("lrtf")).makespan;
  fmt::print(
      "    a model per device, {:>2} that fit  {:>9.0f} {:>8.2f}x {:>8.2f}x  (beside these "
      "alone)\n",
      alone.size(), parallel, parallel / same,
      parallel / Widened(fitting, devices, fitting_curves).makespan);
}

// Shards before the last one keep activations on the host if that is faster, and recompute the others.
void PrintKeeping(const std::vector<BenchTask>& tasks,
                  const std::map<std::string, TaskCosts>& costs, int64_t cap,
                  const FleetDevices& devices, double recomputed) {
  struct Best {
    double makespan = 0, bound = 0, naive = 0;
    int64_t host = 0;
  };
  std::optional<Best> best;
  for (double most_copying : {0.5, 1.0, std::numeric_limits<double>::infinity()}) {
    std::map<std::string, ModelCosts> kept;
    std::vector<const ModelCosts*> models;
    for (const auto& [name, at] : costs)
      kept[name] = KeepOnHost(at.costs, devices.host_bandwidth, most_copying);
    for (const BenchTask& task : tasks) models.push_back(&kept[task.model]);
    FleetShards shards = CutFleet(models, cap);
    if (!shards.feasible) continue;
    std::vector<JobWork> jobs;
    Best at;
    for (size_t t = 0; t < tasks.size(); ++t) {
      jobs.push_back(WorkOf(*models[t], shards.ends[t]));
      jobs.back().steps = tasks[t].steps();
      at.host += jobs.back().host_bytes;
      at.naive += OnADeviceEach(jobs.back(), devices) * static_cast<double>(tasks[t].steps());
    }
    at.makespan = SimulateFleet(jobs, devices, *FindPolicy("lrtf")).makespan;
    at.bound = BoundOf(jobs, devices.devices).seconds();
    if (!best || at.makespan < best->makespan) best = at;
  }
  if (!best) return;
  fmt::print(
      "  kept on the host where that is sooner: makespan {:.0f} s, bound {:.0f} s: {:+.2f} %; "
      "{:.2f} times as fast as recomputing, {:.2f} times as model parallelism that keeps; on the "
      "host {}\n",
      best->makespan, best->bound, 100 * (best->makespan / best->bound - 1),
      recomputed / best->makespan, best->naive / best->makespan, FormatBytes(Bytes{best->host}));
}

void RunWorkload(const char* name, const std::vector<BenchTask>& tasks, const std::string& device) {
  Cluster cluster = Machine(device);
  const DeviceType& type = cluster.device_types.front();
  auto cap = static_cast<int64_t>(static_cast<double>(type.memory.value) * (1 - kReserve));
  std::map<std::string, TaskCosts> costs;
  std::vector<const ModelCosts*> models;
  for (const BenchTask& task : tasks) {
    if (costs.count(task.model) == 0) costs[task.model] = CostsOf(task, cluster, cap);
  }
  for (const BenchTask& task : tasks) models.push_back(&costs[task.model].costs);
  FleetShards shards = CutFleet(models, cap);
  fmt::print("{} on 8 x {} ({}, host at {:.2f} GB/s), fp32, SGD: ", name, type.name,
             FormatBytes(type.memory), type.host.bandwidth * 1e-9);
  if (!shards.feasible) {
    fmt::print("does not fit: {} needs {}\n", tasks[static_cast<size_t>(shards.worst)].name,
               FormatBytes(Bytes{shards.needed}));
    return;
  }
  fmt::print("buffer {}\n", FormatBytes(Bytes{shards.buffer}));
  std::vector<JobWork> jobs;
  int64_t host = 0;
  std::string counts;
  for (size_t t = 0; t < tasks.size(); ++t) {
    jobs.push_back(WorkOf(*models[t], shards.ends[t]));
    jobs.back().name = tasks[t].name;
    jobs.back().steps = tasks[t].steps();
    host += jobs.back().host_bytes;
    counts += fmt::format(" {}", shards.ends[t].size());
  }
  fmt::print("  shards per task:{}; on the host {}\n", counts, FormatBytes(Bytes{host}));
  FleetDevices devices{
      .devices = 8, .host_bandwidth = type.host.bandwidth, .host_latency = type.host.latency};
  for (const PolicyDef& policy : AllPolicies()) {
    FleetResult result = SimulateFleet(jobs, devices, policy);
    FleetBound bound = BoundOf(jobs, devices.devices);
    fmt::print(
        "  {:<12} makespan {:.0f} s, bound {:.0f} s (longest job {:.0f}, work {:.0f}): {:+.2f} %; "
        "busy {:.1f} %\n",
        policy.name, result.makespan, bound.seconds(), bound.longest_job, bound.work,
        100 * (result.makespan / bound.seconds() - 1), 100 * result.utilisation());
  }
  FleetResult fleet = SimulateFleet(jobs, devices, *FindPolicy("lrtf"));
  PrintKeeping(tasks, costs, cap, devices, fleet.makespan);
  std::vector<JobCurve> curves = CurvesOf(tasks, costs, cluster);
  PrintBaselines(tasks, costs, jobs, curves, devices);
  FleetDevices plain = devices;
  plain.double_buffering = false;
  fmt::print("    shards without double buffering  {:>9.0f} {:>8.2f}x\n",
             SimulateFleet(jobs, plain, *FindPolicy("lrtf")).makespan,
             SimulateFleet(jobs, plain, *FindPolicy("lrtf")).makespan / fleet.makespan);
  fmt::print("  shards on more devices ");
  double one = 0;
  for (int64_t count : {1, 2, 4, 8}) {
    devices.devices = count;
    double makespan = SimulateFleet(jobs, devices, *FindPolicy("lrtf")).makespan;
    if (count == 1) one = makespan;
    fmt::print("  {}: {:.2f}x (at most {:.2f})", count, one / makespan,
               one / BoundOf(jobs, count).seconds());
  }
  fmt::print("\n  several on more devices");
  for (int64_t count : {1, 2, 4, 8}) {
    devices.devices = count;
    fmt::print("  {}: {:.2f}x", count, one / Widened(jobs, devices, curves).makespan);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

using Curves = std::map<std::pair<std::string, std::string>, JobCurve>;  // key: cluster and model

void RunGrid(const std::string& grid, const std::string& cluster_name, Curves& curves) {
  Cluster cluster = LoadCluster(cluster_name);
  SpaseProblem problem;
  problem.devices = DeviceCount(cluster);
  problem.switch_seconds = 60;
  for (const BenchTask& task : SaturnTasks(grid)) {
    JobCurve& curve = curves[{cluster_name, task.model}];
    if (curve.name.empty()) {
      curve = FindCurve(Analyse(LoadModel(task.model)), cluster, {}).curve;
      curve.name = task.model;
      fmt::print("  {:<58}", task.model);
      for (const CurvePoint& point : curve.points) {
        fmt::print("  {}: {:.1f} ms", point.devices, 1e3 * point.seconds);
      }
      fmt::print("\n");
      std::fflush(stdout);
    }
    JobCurve job = curve;
    for (CurvePoint& point : job.points) point.seconds *= static_cast<double>(task.steps());
    job.name = task.name;
    problem.jobs.push_back(std::move(job));
  }
  double one = OneAtATime(problem).makespan, equal = EqualSplit(problem).makespan;
  double begin = CpuSeconds();
  SpaseSchedule solved = SolveSpase(problem);
  double took = CpuSeconds() - begin;
  SpaseSchedule run = RunSpase(problem);
  double bound = SpaseBound(problem);
  fmt::print(
      "{} jobs ({}) on {} A100: {:.2f} h, bound {:.2f} h: {:+.1f} % (solved once {:.2f} h in "
      "{:.2f} s; {} switches); one at a time "
      "{:.2f} h: {:.0f} % less; equal split {:.2f} h: {:.0f} % less (Saturn reports 39-49 % "
      "less)\n",
      problem.jobs.size(), grid, problem.devices, run.makespan / 3600, bound / 3600,
      100 * (run.makespan / bound - 1), solved.makespan / 3600, took, run.switches, one / 3600,
      100 * (1 - run.makespan / one), equal / 3600, 100 * (1 - run.makespan / equal));
  std::fflush(stdout);
}

void TimeSolver() {
  SpaseProblem problem;
  problem.devices = 64;
  for (uint64_t j = 0; j < 32; ++j) {
    JobCurve curve;
    double one = 1000 * std::exp(2 * RandomUniform(7, 0, j));
    double exponent = 0.7 + 0.3 * RandomUniform(7, 1, j);
    for (int64_t g = 1; g <= 64; g *= 2) {
      curve.points.push_back({g, one / std::pow(static_cast<double>(g), exponent)});
    }
    problem.jobs.push_back(std::move(curve));
  }
  double begin = CpuSeconds();
  SpaseSchedule solved = SolveSpase(problem);
  fmt::print(
      "solver: 32 made-up jobs x 64 devices in {:.2f} s ({} schedules), {:+.1f} % over the bound\n",
      CpuSeconds() - begin, solved.evaluations, 100 * (solved.makespan / SpaseBound(problem) - 1));
}

void TimeSimulation() {
  std::vector<JobWork> jobs;
  for (uint64_t j = 0; j < 500; ++j) {
    JobWork job{.name = "made up", .steps = 200};
    for (int s = 0; s < 7; ++s) {
      job.runs.push_back({.shard = s < 4 ? s : 6 - s,
                          .backward = s >= 3,
                          .seconds = 1 + RandomUniform(1, j, static_cast<uint64_t>(s)),
                          .fetch_bytes = 1'000'000'000,
                          .evict_bytes = 500'000'000});
    }
    jobs.push_back(std::move(job));
  }
  double begin = CpuSeconds();
  FleetResult result =
      SimulateFleet(jobs, {.devices = 128, .host_bandwidth = 12e9}, *FindPolicy("lrtf"));
  fmt::print(
      "simulation: 500 made-up jobs on 128 devices, {} runs, in {:.1f} s; {:+.2f} % over the "
      "bound\n",
      result.runs, CpuSeconds() - begin,
      100 * (result.makespan / BoundOf(jobs, 128).seconds() - 1));
}

int Main(const std::vector<std::string>& asked) {
  auto wants = [&](const char* part) {
    return asked.empty() || std::find(asked.begin(), asked.end(), part) != asked.end();
  };
  fmt::print("simulated; no figure here was measured on a device\n");
  if (wants("policies")) {
    ComparePolicies();
    TimeSimulation();
  }
  if (wants("hydra")) {
    for (const char* device : {"gtx-1080ti", "v100-sxm2-16gb"}) {
      RunWorkload("12 GPT-2 XL tasks", GptTasks(), device);
      RunWorkload("12 ViT tasks", VitTasks(), device);
    }
  }
  if (wants("spase")) {
    Curves curves;
    fmt::print("steps on 1, 2, 4, ... devices, as the planner finds them\n");
    for (const char* cluster : {"dgx-a100:1", "dgx-a100:2"}) {
      for (const char* grid : {"text", "image", "mixed"}) RunGrid(grid, cluster, curves);
    }
    TimeSolver();
  }
  return 0;
}

}  // namespace
}  // namespace heddle

int main(int count, char** arguments) { return heddle::Main({arguments + 1, arguments + count}); }
