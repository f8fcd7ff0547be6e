#include "runtime/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/option_types.h"
#include "cli/shared_options.h"
#include "cli/torch/prediction.h"
#include "cli/torch/supervise.h"
#include "cluster/load.h"
#include "cluster/machine.h"
#include "cluster/presets.h"
#include "cluster/profile.h"
#include "cluster/topology.h"
#include "frontend/load.h"
#include "host/supervisor/member.h"
#include "ops/op.h"
#include "plan/model.h"
#include "plan/precision.h"
#include "runtime/accelerator.h"
#include "runtime/calibrate/whole_step.h"
#include "runtime/devices.h"
#include "runtime/ranks.h"
#include "runtime/torch_compat.h"

namespace heddle {
namespace {

constexpr std::string_view kCpuCore = "cpu-core";  // what `local:N` has

struct CalibrateArgs {
  int64_t ranks = 0;  // 0: two, or one on a machine with one core
  std::string cluster, out = "profile.json", device = "cpu";
  std::vector<std::string> precisions = {"f32"};
  CalibrateOptions options;
  RankOptions transport;
  bool json = false;
};

// The models whose nodes are measured: a layer of every family, at sizes that are usual on a core or a GPU.
std::vector<std::string> Models(at::Device device, bool small) {
  if (small) return {"gpt:layers=1,hidden=16,heads=2,seq=8,vocab=32,batch=2"};
  std::vector<std::string> models;
  struct Size {
    int hidden, heads, seq, vocab, batch;
  };
  std::vector<Size> sizes = {{64, 2, 32, 512, 2}, {256, 4, 128, 2048, 4}, {512, 8, 256, 8192, 4}};
  if (device.is_cuda())
    sizes = {{256, 4, 128, 2048, 4}, {1024, 8, 512, 8192, 4}, {2048, 16, 512, 32768, 16}};
  for (const Size& s : sizes) {
    for (const char* family : {"gpt", "llama", "bert", "t5", "moe"}) {
      models.push_back(fmt::format("{}:layers=1,hidden={},heads={},seq={},vocab={},batch={}{}",
                                   family, s.hidden, s.heads, s.seq, s.vocab, s.batch,
                                   family == std::string_view("moe") ? ",experts=4" : ""));
    }
  }
  for (int image : {32, 64}) {
    models.push_back(
        fmt::format("resnet:depth=18,channels={},image={},classes=10,batch=4", image / 2, image));
  }
  return models;
}

// The models whose whole steps are timed. Their steps take some tens of milliseconds.
std::vector<std::string> ModelsOfSteps(at::Device device) {
  if (device.is_cuda()) {
    return {"gpt:layers=6,hidden=1280,heads=10,seq=1024,vocab=20000,batch=8",
            "llama:layers=6,hidden=1280,heads=10,ffn=3456,seq=1024,vocab=20000,batch=8"};
  }
  return {"gpt:layers=3,hidden=192,heads=4,seq=64,vocab=2000,batch=8",
          "llama:layers=3,hidden=192,heads=4,ffn=512,seq=64,vocab=2000,batch=8"};
}

// A cross entropy whose classes are split over ranks.
Graph SplitLoss(int64_t rows, int64_t classes) {
  Attributes attributes = {{"reduction", std::string("sum")}};
  std::vector<TensorType> types = {{DType::kF32, {rows, classes}}, {DType::kI64, {rows}}};
  Graph graph = FindOp("CrossEntropy")->expansion({attributes, types});
  graph.values[graph.ValuesOf(ValueKind::kInput).front().index()].kind = ValueKind::kParameter;
  return graph;
}

std::string Time(double seconds) { return FormatSeconds(Seconds{seconds}); }

void PrintTable(const Profile& profile, const std::vector<WholeSteps>& whole) {
  fmt::print("{} on {}\n", profile.device, profile.measured_on);
  fmt::print("{:<34}", "busy ranks");
  for (const LoadTimes& load : profile.loads) fmt::print("{:>14}", load.ranks);
  auto row = [&](const std::string& name, auto&& cell) {
    fmt::print("\n{:<34}", name);
    for (const LoadTimes& load : profile.loads) fmt::print("{:>14}", cell(load));
  };
  auto rate = [](const LoadTimes& load, TimeTable which, double m, double n, double k) {
    const RateTable& table = load.kernels.begin()->second.table(which);
    return fmt::format("{:.3g} GFLOP/s", table.RateAt(m, n, k) / 1e9);
  };
  for (double size : {64, 256, 1024}) {
    row(fmt::format("product of {0} x {0} x {0}", size),
        [&](const LoadTimes& load) { return rate(load, TimeTable::kProduct, size, size, size); });
  }
  row("attention, 128 positions of 64",
      [&](const LoadTimes& load) { return rate(load, TimeTable::kCausal, 128, 1, 64); });
  row("attention backward",
      [&](const LoadTimes& load) { return rate(load, TimeTable::kCausalBackward, 128, 1, 64); });
  for (double bytes : {1 << 20, 1 << 25}) {
    row(fmt::format("copy, {} moved", FormatBytes(Bytes{static_cast<int64_t>(bytes)})),
        [&](const LoadTimes& load) {
          return fmt::format("{:.3g} GB/s", bytes / load.copy.SecondsAt(bytes) / 1e9);
        });
  }
  row("launch of a kernel", [&](const LoadTimes& load) { return Time(load.launch); });
  if (profile.loads.front().captured)
    row("host time besides kernels, per step",
        [&](const LoadTimes& load) { return Time(load.host); });
  row("autograd call", [&](const LoadTimes& load) { return Time(load.backward); });
  row("update of 1 M parameters",
      [&](const LoadTimes& load) { return Time(load.update.SecondsAt(1 << 20)); });
  for (const char* kind : {"all-reduce", "message"}) {
    for (double bytes : {1 << 10, 1 << 22}) {
      row(fmt::format("{} of {}", kind, FormatBytes(Bytes{static_cast<int64_t>(bytes)})),
          [&](const LoadTimes& load) -> std::string {
            auto found = load.transfers.find(kind);
            return found == load.transfers.end() ? "-" : Time(found->second.SecondsAt(bytes));
          });
    }
  }
  auto held = [](const LoadTimes& load) { return load.share < 1; };
  if (std::any_of(profile.loads.begin(), profile.loads.end(), held))
    row("share of a core, while busy",
        [](const LoadTimes& load) { return fmt::format("{:.1f} %", 100 * load.share); });
  row("ops measured", [&](const LoadTimes& load) {
    return std::to_string(load.kernels.begin()->second.ops.size());
  });
  if (!whole.empty()) {
    for (const auto& [dtype, factor] : whole.front().factors) {
      row(fmt::format("step in {} / sum of its kernels", dtype),
          [&, l = size_t{0}](const LoadTimes&) mutable {
            return fmt::format("{:.3f}", whole[l++].factors.at(dtype));
          });
    }
  }
  fmt::print("\n");
}

Profile Describe(const CalibrateArgs& args, const std::string& device_name) {
  Profile profile;
  profile.device = device_name;
  profile.machine = ThisMachine();
  const at::Device device = args.options.device;
  for (const auto& [key, value] : SoftwareFacts(args.options.threads, device))
    profile.machine[key] = value;
  if (args.ranks > 1) profile.machine["transport"] = args.transport.transport;
  profile.measured_on = fmt::format("{}, {} cores, {} rank{} of {} thread{}", ThisProcessor().name,
                                    ThisProcessor().cores, args.ranks, args.ranks == 1 ? "" : "s",
                                    args.options.threads, args.options.threads == 1 ? "" : "s");
  if (device.is_cuda()) profile.measured_on = CudaDeviceName(0) + ", " + profile.measured_on;
  profile.overlap = profile.fused_loss = profile.fused_update = device.is_cuda();
  profile.fused_attention = kHasFusedAttention;
  return profile;
}

std::vector<Graph> LoadGraphs(const CalibrateOptions& options) {
  std::vector<Graph> graphs = {SplitLoss(64, 64)};
  if (!options.small) {
    graphs.push_back(SplitLoss(256, 1024));
    graphs.push_back(SplitLoss(1024, 4096));
  }
  for (DType dtype : options.dtypes) {
    for (const std::string& name : Models(options.device, options.small)) {
      Model model = Analyse(LoadModel(name));
      if (dtype != DType::kF32) model = WithComputeType(std::move(model), dtype);
      graphs.push_back(std::move(model.graph));
    }
  }
  return graphs;
}

// Corrects the profiles by comparing whole steps of models with the simulator's predictions.
std::vector<std::vector<WholeSteps>> CorrectByModels(std::vector<Profile>& profiles,
                                                     const Cluster& cluster,
                                                     const CalibrateOptions& options,
                                                     Transport& transport) {
  std::vector<Model> models;
  for (const std::string& name : ModelsOfSteps(options.device))
    models.push_back(Analyse(LoadModel(name)));
  auto predict = [](const Program& program, const Plan& plan, const Profile& profile) {
    SimOptions sim;
    AddProfile(sim, profile);
    return Predict(program, plan, sim).step_seconds;
  };
  return CorrectBySteps(profiles, cluster, options, models, predict, transport);
}

// The kind of device that each rank measures. If devices differ, rank r measures device r.
std::vector<size_t> KindsOf(const Cluster& cluster, int64_t ranks) {
  std::vector<size_t> kinds(static_cast<size_t>(ranks), 0);
  if (cluster.device_types.size() == 1) return kinds;
  if (DeviceCount(cluster) != ranks) {
    ThrowInput(
        "--cluster: its {} devices are of {} kinds, but {} rank{}: every device needs a rank, give "
        "--ranks {}",
        DeviceCount(cluster), cluster.device_types.size(), ranks,
        ranks == 1 ? " measures" : "s measure", DeviceCount(cluster));
  }
  for (size_t rank = 0; rank < kinds.size(); ++rank)
    kinds[rank] = TypeOf(cluster, DeviceId::FromIndex(rank)).index();
  return kinds;
}

// "h100" of "h100-sxm".
std::string_view MakeOf(std::string_view device) { return device.substr(0, device.find('-')); }

// Throws if the cluster has a device that heddle knows and this machine does not: a profile has the name of the
// cluster's device and replaces its assumed times. Names that only the cluster file defines stand for the devices of
// this machine.
void RequireMeasured(const CalibrateArgs& args, const Cluster& cluster) {
  std::string gpu = DescribeDevice(args.device);
  std::string here = ClusterHere(args.device, 1).device_types.front().name;
  bool known_here = gpu.empty() || here != kCpuCore;
  for (const DeviceType& type : cluster.device_types) {
    if (FindKnownDevice(type.name) == nullptr) continue;
    if (known_here && MakeOf(type.name) == MakeOf(here)) continue;
    ThrowInput(
        "--cluster {}: it has '{}', but this machine would measure {}: describe this machine with "
        "'heddle discover -o here.yaml' and give --cluster here.yaml",
        cluster.name, type.name, gpu.empty() ? "a core of a CPU (--device cpu)" : gpu);
  }
}

Cluster ClusterOf(CalibrateArgs& args, const LaunchInfo& launch) {
  std::optional<Cluster> given;
  if (!args.cluster.empty()) given = LoadCluster(args.cluster);
  if (args.ranks == 0 && launch.size > 1) args.ranks = launch.size;
  if (args.ranks == 0 && given && given->device_types.size() > 1) args.ranks = DeviceCount(*given);
  if (args.ranks == 0) args.ranks = std::min(2u, std::max(1u, std::thread::hardware_concurrency()));
  Cluster cluster = given ? *given : ClusterHere(args.device, args.ranks);
  RequireMeasured(args, cluster);
  args.options.kinds = KindsOf(cluster, args.ranks);
  return cluster;
}

int Run(CalibrateArgs args, const LaunchInfo& launch, RankSlot* slot) {
  const Cluster cluster = ClusterOf(args, launch);
  args.options.dtypes.clear();
  for (const std::string& name : args.precisions) {
    for (const NamedPrecision& known : kPrecisions) {
      if (known.name == name) args.options.dtypes.push_back(known.compute);
    }
  }
  args.options.device = ChooseDevice(args.device, launch.local_rank);
  RankMode mode = ModeOf(launch, args.ranks, args.transport.transport);
  if (mode != RankMode::kLaunched)
    AtomicFile checked(args.out);  // fails now if the file cannot be written
  if (mode == RankMode::kLaunch)
    return LaunchRanks(args.ranks, args.transport.deadline_seconds, &PrintFailure);
  std::vector<Graph> graphs = LoadGraphs(args.options);
  args.transport.slot = slot;
  return RunRanksHere(mode, args.ranks, launch, args.transport, [&](Transport& transport) {
    if (slot != nullptr) slot->Enter(RankPhase::kWorking);
    std::optional<Progress> progress;
    std::vector<std::vector<LoadTimes>> loads = Calibrate(
        args.options, graphs, transport, [&](int64_t done, int64_t all, std::string_view what) {
          if (!progress) progress.emplace("calibrating", all);
          progress->Update(done, what);
        });
    std::vector<Profile> profiles;
    for (size_t kind = 0; kind < loads.size(); ++kind) {
      profiles.push_back(Describe(args, cluster.device_types[kind].name));
      profiles.back().loads = std::move(loads[kind]);
    }
    std::vector<std::vector<WholeSteps>> whole(profiles.size());
    if (!args.options.small) whole = CorrectByModels(profiles, cluster, args.options, transport);
    progress.reset();
    if (transport.rank() != 0) return;
    Json json = ToJson(profiles);
    WriteFileAtomically(args.out, json.dump() + "\n");
    if (args.json) return PrintJson({{"profile", args.out}, {"measured", json}});
    for (size_t kind = 0; kind < profiles.size(); ++kind) PrintTable(profiles[kind], whole[kind]);
    fmt::print("written to {}: give it to plan, simulate and train as --profile {}\n", args.out,
               args.out);
  });
}

void RunCalibrate(const CalibrateArgs& args) {
  LaunchInfo launch = ReadLaunch();
  try {
    int status = 0;
    std::optional<Membership> member = JoinSupervisor(launch);
    RankSlot* slot = member ? member->slot : nullptr;
    ReportTo(slot, [&] { status = Run(args, launch, slot); });
    if (status != 0) std::exit(status);
  } catch (const InputError&) {
    if (launch.rank != 0) std::exit(2);  // every rank sees the same mistake; rank 0 reports it
    throw;
  }
}

}  // namespace

void AddCalibrate(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("calibrate", "measure this machine's kernels and links, as a profile");
  auto args = std::make_shared<CalibrateArgs>();
  command->add_option("-o,--output", args->out, "the file to write")->capture_default_str();
  AddRanksOption(*command, args->ranks,
                 "number of ranks that train here at once (default: 2, or 1 on one core)");
  AddThreadsOption(*command, args->options.threads, "threads per rank, as for 'train'")
      ->capture_default_str();
  command->add_option("--seconds", args->options.seconds, "time that the measurement may take")
      ->transform(RealIn(1, 3600))
      ->capture_default_str();
  command->add_option("--device", args->device, "device to measure")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--precision", args->precisions, "compute types to measure, one or several")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  AddClusterOption(
      *command, args->cluster,
      "cluster whose devices are measured (default: local:RANKS); if they differ, rank r "
      "measures device r");
  command
      ->add_option("--transport", args->transport.transport,
                   "how ranks communicate, as for 'train'")
      ->check(CLI::IsMember({"mpi", "threads"}))
      ->capture_default_str();
  command->add_flag("--small", args->options.small,
                    "only a few small sizes, which is fast, for tests");
  AddJsonFlag(*command, args->json);
  command->footer(
      "Run nothing else on the machine meanwhile. The profile names the machine that it was "
      "measured on, and\nother machines reject it.\n\n"
      "Examples:\n"
      "  heddle calibrate --ranks 2 -o here.json\n"
      "  heddle train gpt2 --tp 2 --threads 1 --profile here.json");
  command->callback([args] { RunCalibrate(*args); });
}

}  // namespace heddle
