// heddle fleet: many models on few devices.
#include "report/fleet.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/phases.h"
#include "cluster/load.h"
#include "cluster/topology.h"
#include "cluster/yaml_tree.h"
#include "fleet/curve.h"
#include "fleet/jobs.h"
#include "fleet/shards.h"
#include "fleet/widen.h"
#include "frontend/load.h"
#include "ops/rebatch.h"

namespace heddle {
namespace {

constexpr double kFleetReserve = 0.06;  // of a device: contexts, libraries, what is not simulated

struct FleetArgs {
  std::string jobs, cluster, policy{AllPolicies().front().name};
  double reserve = kFleetReserve;
  double switch_seconds = 60;
  bool simulate = false, several = false, no_double_buffering = false, json = false;
};

const PolicyDef& PolicyOf(const FleetArgs& args) {
  const PolicyDef* policy = FindPolicy(args.policy);
  if (policy != nullptr) return *policy;
  std::vector<std::string_view> names;
  for (const PolicyDef& at : AllPolicies()) names.push_back(at.name);
  ThrowInput("--policy {}: {}", args.policy, DidYouMean(args.policy, names));
}

// What jobs run on: devices of one kind.
struct FleetMachine {
  Cluster cluster;
  DeviceType type;
  int64_t devices = 0;
  int64_t memory = 0;      // of a device, for shards and buffer
  int64_t host_limit = 0;  // 0: not known
};

FleetMachine MachineOf(const FleetArgs& args, const FleetSpec& spec) {
  std::string name = args.cluster.empty() ? spec.cluster : args.cluster;
  if (name.empty()) {
    ThrowInput("{}: cluster: missing: give one, such as 'dgx-v100:1', or --cluster", args.jobs);
  }
  FleetMachine out;
  out.cluster = LoadCluster(name);
  if (out.cluster.device_types.size() > 1) {
    ThrowInput("cluster {}: {} kinds of devices: a fleet takes one kind", name,
               out.cluster.device_types.size());
  }
  out.type = out.cluster.device_types.front();
  if (!out.type.host.exists()) {
    ThrowInput("cluster {}: device '{}' has no link to its host, where shards live", name,
               out.type.name);
  }
  out.devices = DeviceCount(out.cluster);
  if (spec.devices > out.devices) {
    ThrowInput("{}: devices: {}: the cluster {} has {}", args.jobs, spec.devices, name,
               out.devices);
  }
  if (spec.devices > 0) out.devices = spec.devices;
  out.memory =
      static_cast<int64_t>(static_cast<double>(out.type.memory.value) * (1 - args.reserve));
  GroupSpan node = NodeOf(out.cluster, DeviceId{0});
  if (out.devices > node.count) {
    ThrowInput(
        "{}: {} devices on several machines: shards live in the memory of one, which has {}; "
        "give devices: {}",
        args.jobs, out.devices, node.count, node.count);
  }
  out.host_limit =
      spec.host_memory > 0 ? spec.host_memory : out.cluster.group(node.group).host_memory.value;
  return out;
}

Model LoadJobModel(const std::string& file, const JobSpec& job) {
  try {
    Graph graph = LoadModel(job.model);
    return Analyse(job.batch > 0 ? Rebatch(graph, job.batch) : std::move(graph));
  } catch (const InputError& error) {
    ThrowInput("{}:{}: {}: {}", file, job.line, job.name, error.what());
  }
}

void CheckData(const std::string& file, const JobSpec& job) {
  if (job.data.empty()) return;
  std::filesystem::path path(job.data);
  if (path.is_relative()) path = std::filesystem::path(file).parent_path() / path;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    ThrowInput("{}:{}: {}: data: {}: no such file", file, job.line, job.name, job.data);
  }
}

// The models of the jobs, each kind once, and how they are cut.
class PreparedFleet {
 public:
  PreparedFleet(const FleetArgs& args, const FleetSpec& spec, const FleetMachine& machine,
                Phases& phases)
      : args_(args), spec_(spec), machine_(machine) {
    for (const JobSpec& job : spec.jobs) CheckData(args.jobs, job);
    for (const JobSpec& job : spec.jobs) {
      auto key = std::tuple(job.model, job.batch, job.optimizer, job.precision, job.sparsity);
      auto [at, fresh] = kinds_.try_emplace(key);
      if (fresh) {
        phases.Rename(fmt::format("pricing {}", job.name));
        at->second.model = LoadJobModel(args.jobs, job);
        const Model& model = at->second.model;
        ModelCostOptions options{.precision = job.precision, .moments = MomentsOf(job.optimizer)};
        options.pruning.sparsity = job.sparsity;
        at->second.batch = std::max<int64_t>(1, BatchSize(model));
        at->second.costs = FindModelCosts(model, machine.cluster, options);
      }
      of_job_.push_back(&at->second);
    }
    Cut();
    if (args.several) FindCurves(phases);
  }

  FleetReport Report(const PolicyDef& policy) const {
    FleetReport report;
    report.device = machine_.type.name;
    report.policy = policy.name;
    report.policy_about = policy.about;
    report.devices = {.devices = machine_.devices,
                      .host_bandwidth = machine_.type.host.bandwidth,
                      .host_latency = machine_.type.host.latency,
                      .double_buffering = !args_.no_double_buffering};
    report.device_bytes = machine_.memory;
    report.buffer_bytes = shards_.buffer;
    report.host_limit = machine_.host_limit;
    report.early_stopping = spec_.halving.has_value();
    report.bound = BoundOf(works_, machine_.devices);
    if (args_.several) {
      WideFleet wide = WidenFleet(works_, report.devices, policy, curves_, args_.switch_seconds);
      report.result = Combined(wide);
      report.several = {wide.from, wide.bound,
                        SimulateFleet(works_, report.devices, policy).makespan,
                        wide.several.pieces};
    } else {
      report.result = SimulateFleet(works_, report.devices, policy);
    }
    for (size_t j = 0; j < works_.size(); ++j) {
      FleetReport::Job job;
      job.name = works_[j].name;
      job.steps = works_[j].steps;
      for (int end : shards_.ends[j]) {
        job.shard_ends.push_back(of_job_[j]->costs.block_ends[static_cast<size_t>(end) - 1]);
      }
      job.step_seconds = StepSeconds(works_[j]);
      job.total_seconds = TotalSeconds(works_[j]);
      job.finished = report.result.finished[j];
      for (const ShardRun& run : works_[j].runs) {
        job.peak_bytes = std::max(job.peak_bytes, run.peak_bytes);
      }
      job.host_bytes = works_[j].host_bytes;
      report.jobs.push_back(std::move(job));
    }
    return report;
  }

 private:
  struct ModelKind {
    Model model;
    ModelCosts costs;
    std::optional<JobCurve> curve;  // of a step
    int64_t batch = 1;
  };

  // What the planner finds on 2, 4, ... devices.
  void FindCurves(Phases& phases) {
    for (size_t j = 0; j < works_.size(); ++j) {
      ModelKind& kind = *of_job_[j];
      if (!kind.curve) {
        phases.Rename(fmt::format("planning {} for several devices", works_[j].name));
        kind.curve = FindCurve(kind.model, machine_.cluster,
                               {.precision = spec_.jobs[j].precision,
                                .least_devices = 2,
                                .most_devices = machine_.devices});
      }
      curves_.push_back(*kind.curve);
      for (CurvePoint& point : curves_.back().points) {
        point.seconds *= static_cast<double>(works_[j].steps);
      }
    }
  }

  void Cut() {
    std::vector<const ModelCosts*> models;
    for (const ModelKind* kind : of_job_) models.push_back(&kind->costs);
    shards_ = CutFleet(models, machine_.memory);
    if (!shards_.feasible) {
      throw Infeasible(fmt::format(
          "job '{}' fits no device: its largest part and the buffer for the next need {}, a {} has "
          "{} for them, {} too little; take a smaller batch or another device",
          spec_.jobs[static_cast<size_t>(shards_.worst)].name, FormatBytes(Bytes{shards_.needed}),
          machine_.type.name, FormatBytes(Bytes{machine_.memory}),
          FormatBytes(Bytes{std::max<int64_t>(0, shards_.needed - machine_.memory)})));
    }
    int64_t host = 0;
    for (size_t j = 0; j < models.size(); ++j) {
      JobWork work = WorkOf(*models[j], shards_.ends[j]);
      work.name = spec_.jobs[j].name;
      work.steps = StepsOf(spec_.jobs[j], of_job_[j]->batch);
      work.priority = spec_.jobs[j].priority;
      host += work.host_bytes;
      works_.push_back(std::move(work));
    }
    if (machine_.host_limit > 0 && host > machine_.host_limit) {
      throw Infeasible(fmt::format(
          "the jobs take {} of host memory, there is {}: {} too little", FormatBytes(Bytes{host}),
          FormatBytes(Bytes{machine_.host_limit}), FormatBytes(Bytes{host - machine_.host_limit})));
    }
  }

  const FleetArgs& args_;
  const FleetSpec& spec_;
  const FleetMachine& machine_;
  std::map<std::tuple<std::string, int64_t, std::string, DType, double>, ModelKind> kinds_;
  std::vector<ModelKind*> of_job_;
  FleetShards shards_;
  std::vector<JobWork> works_;
  std::vector<JobCurve> curves_;  // per job, with --several
};

void RunFleet(const FleetArgs& args) {
  if (!args.simulate) {
    ThrowInput("heddle fleet {}: only --simulate is there so far", args.jobs);
  }
  const PolicyDef& policy = PolicyOf(args);
  FleetSpec spec = JobsFromYaml(ReadFile(args.jobs, kMaxYamlBytes), args.jobs);
  FleetMachine machine = MachineOf(args, spec);
  FleetReport report;
  {
    Phases phases("fleet", 2);
    phases.Begin("pricing models");
    PreparedFleet fleet(args, spec, machine, phases);
    phases.Begin("simulating");
    report = fleet.Report(policy);
  }
  if (args.json) {
    PrintJson(ToJson(report));
  } else {
    fmt::print("{}", Screen(report));
  }
}

}  // namespace

void AddFleet(CLI::App& app) {
  CLI::App* command = app.add_subcommand("fleet", "many models on few devices");
  auto args = std::make_shared<FleetArgs>();
  command->add_option("JOBS", args->jobs, "a YAML file of jobs (docs/fleet.md)")->required();
  command->add_flag("--simulate", args->simulate,
                    "only predict: makespan, bound, who runs what when");
  command->add_option("--cluster", args->cluster, "what to run on, if not what the file says");
  std::string policies;
  for (const PolicyDef& policy : AllPolicies()) {
    policies += fmt::format("{}{}", policies.empty() ? "" : ", ", policy.name);
  }
  command->add_option("--policy", args->policy, "which job a free device takes: " + policies)
      ->capture_default_str();
  command
      ->add_option("--reserve", args->reserve,
                   "part of a device's memory that is left to contexts and libraries")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  command->add_flag("--several", args->several,
                    "give jobs several devices where that pays, by plans for 2, 4, ... of them");
  command
      ->add_option("--switch", args->switch_seconds,
                   "seconds that a job loses when its devices change")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_flag("--no-double-buffering", args->no_double_buffering,
                    "fetch a shard when the one before has ended");
  command->add_flag("--json", args->json, "print one JSON object on standard output");
  command->footer(
      "Models are cut into shards that fit a device beside the next one's; any device takes the "
      "next shard of\nany job. All figures are simulated.\n"
      "\n"
      "Example:\n"
      "  heddle fleet jobs.yaml --simulate --cluster dgx-v100:1");
  command->callback([args] { RunFleet(*args); });
}

}  // namespace heddle
