#include "cluster/discover.h"

#include <fmt/format.h>

#ifdef HEDDLE_WITH_HWLOC
#include <hwloc.h>
#endif

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"
#include "cluster/builder.h"
#include "cluster/presets.h"

namespace heddle {
namespace {

constexpr double kMemoryLatency = 1e-6;  // nominal latency of a message through shared memory
constexpr double kPcieLatency = 5e-6;
constexpr double kNvlinkLatency = 3e-6;
constexpr double kNvlinkBandwidth =
    25e9;  // bytes per second of one NVLink from generation 2 on, in one direction
// bytes per second of one lane of generation 3; each generation doubles it
constexpr double kPcieLane = 8e9 / 8 * 128 / 130;
// The nominal rate of a core: sixteen lanes, each with a multiplication and an addition per cycle, at 3 GHz, as AVX2
// and narrow AVX-512 units have.
constexpr double kCoreRate = 2 * 16 * 3e9;

// The number of cores without hyperthreads. Appends remarks on what the machine does not report.
int64_t PhysicalCores([[maybe_unused]] const Processor& processor,
                      std::vector<std::string>& remarks) {
#ifdef HEDDLE_WITH_HWLOC
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) == 0) {
    bool loaded = hwloc_topology_load(topology) == 0;
    int cores = loaded ? hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) : 0;
    int packages = loaded ? hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE) : 0;
    hwloc_topology_destroy(topology);
    if (packages > 1) {
      remarks.push_back(
          fmt::format("{} processors are treated as one with a common memory", packages));
    }
    if (cores > 0) return std::min<int64_t>(cores, processor.cores);
  }
  remarks.push_back("hwloc cannot read this machine: hyperthreads count as cores");
#else
  remarks.push_back("built without hwloc (libhwloc-dev): hyperthreads count as cores");
#endif
  return processor.cores;
}

// Bytes per second that all cores together copy; the best of a few rounds.
double MemoryBandwidth(int64_t cores) {
  constexpr size_t kBytes = size_t{32} << 20;
  constexpr int kRounds = 4;
  std::vector<std::vector<char>> from(static_cast<size_t>(cores), std::vector<char>(kBytes, 1)),
      to = from;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    auto begin = std::chrono::steady_clock::now();
    {
      std::vector<std::jthread> threads;
      for (size_t c = 0; c < from.size(); ++c)
        threads.emplace_back([&, c] { std::memcpy(to[c].data(), from[c].data(), kBytes); });
    }
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, 2.0 * static_cast<double>(kBytes * from.size()) / seconds);
  }
  return best;
}

// A name as an identifier: "AMD EPYC 7B13" becomes amd-epyc-7b13.
std::string Slug(const std::string& name) {
  std::string slug;
  for (char c : name) {
    bool kept = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (kept) slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!kept && !slug.empty() && slug.back() != '-') slug += '-';
    if (slug.size() == 60) break;
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug.empty() ? "unknown" : slug;
}

Link PcieOf(const GpuInfo& gpu) {
  int generation = gpu.pcie_generation > 0 ? gpu.pcie_generation : 3;
  int width = gpu.pcie_width > 0 ? gpu.pcie_width : 16;
  double bandwidth = kPcieLane * width;
  for (int g = 3; g < std::min(generation, 10); ++g) bandwidth *= 2;
  for (int g = generation; g < 3; ++g) bandwidth /= 2;
  return {fmt::format("pcie{}", generation), bandwidth, kPcieLatency};
}

// The device type of an unknown GPU, derived from what NVML reports.
DeviceType UnknownGpu(const GpuInfo& gpu, std::vector<std::string>& remarks) {
  if (gpu.cores == 0 || gpu.clock_mhz == 0) {
    ThrowInput(
        "GPU '{}' is unknown, and NVML does not report its speed: write a cluster file "
        "(docs/clusters.md)",
        gpu.name);
  }
  remarks.push_back(fmt::format(
      "GPU '{}' is unknown: its fp32 rate is assumed to be cores x clock, and its memory bandwidth "
      "and other rates are derived from that; compare them with its data sheet",
      gpu.name));
  DeviceType type;
  type.name = Slug(gpu.name);
  type.peak.fp32 = 2e6 * static_cast<double>(gpu.cores * gpu.clock_mhz);
  type.peak.fp16 = type.peak.bf16 = 4 * type.peak.fp32;
  type.memory_bandwidth = type.peak.fp32 / 20;
  return type;
}

DeviceType TypeOf(const GpuInfo& gpu, std::vector<std::string>& remarks) {
  // The name of a known device stands for its data sheet in every cluster file.
  if (const DeviceType* known = KnownGpu(gpu)) return *known;
  DeviceType type = UnknownGpu(gpu, remarks);
  type.memory = std::min(Bytes{gpu.memory_bytes}, kMaxMemory);
  type.host = PcieOf(gpu);
  return type;
}

}  // namespace

const DeviceType* KnownGpu(const GpuInfo& gpu) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kNames = {
      {{"H200", "h200-sxm"},
       {"H100 80GB HBM3", "h100-sxm"},
       {"B200", "b200-sxm"},
       {"A100-SXM4-80GB", "a100-sxm-80gb"},
       {"A100-SXM4-40GB", "a100-sxm-40gb"},
       {"V100-SXM2-32GB", "v100-sxm2-32gb"},
       {"V100-SXM2-16GB", "v100-sxm2-16gb"},
       {"V100-PCIE-32GB", "v100-pcie-32gb"},
       {"P100-PCIE-12GB", "p100-pcie-12gb"},
       {"RTX 4090", "rtx-4090"},
       {"RTX 3090", "rtx-3090"},
       {"GTX 1080 Ti", "gtx-1080ti"}}};
  for (const auto& [part, known] : kNames) {
    if (gpu.name.find(part) != std::string::npos) return FindKnownDevice(known);
  }
  return nullptr;
}

Discovery ClusterOf(const Processor& processor, double bandwidth, const FoundGpus& gpus,
                    int64_t ranks) {
  Discovery found;
  if (!gpus.remark.empty()) found.remarks.push_back(gpus.remark);
  ClusterBuilder builder;
  Group node{.name = "this-machine"};
  node.host_memory = std::min(Bytes{std::max<int64_t>(processor.memory_bytes, 1)}, kMaxMemory);
  if (!gpus.gpus.empty()) {
    auto count = static_cast<int64_t>(gpus.gpus.size());
    if (ranks > count) ThrowInput("--ranks {}: this machine has {} GPUs", ranks, count);
    if (ranks > 0) count = ranks;
    int links = gpus.gpus.front().nvlinks;
    for (int64_t g = 0; g < count; ++g) {
      const GpuInfo& gpu = gpus.gpus[static_cast<size_t>(g)];
      links = std::min(links, gpu.nvlinks);
      AddMembers(node, {1, builder.Add(TypeOf(gpu, found.remarks)), {}});
    }
    if (count > 1) {
      node.link = links > 0 ? Link{"nvlink", links * kNvlinkBandwidth, kNvlinkLatency}
                            : PcieOf(gpus.gpus.front());
    }
  } else {
    if (ranks > processor.cores)
      ThrowInput("--ranks {}: this machine has {} cores", ranks, processor.cores);
    bandwidth =
        // Rounded to the precision of the measurement.
        std::max(1e8, std::round(bandwidth / 1e8) * 1e8);
    double share = static_cast<double>(processor.cores) / static_cast<double>(ranks);
    DeviceType core;
    core.name = "cpu-" + Slug(processor.name);
    core.peak = {.fp32 = share * kCoreRate,
                 .tf32 = 0,
                 .fp16 = share * kCoreRate / 10,
                 .bf16 = share * kCoreRate / 10,
                 .fp8 = 0};
    core.memory = Bytes{std::max<int64_t>(1, node.host_memory.value / ranks)};
    core.memory_bandwidth = bandwidth / static_cast<double>(ranks);
    core.host = {"memory", core.memory_bandwidth / 2, kMemoryLatency};
    AddMembers(node, {ranks, builder.Add(core), {}});
    if (ranks > 1) node.link = {"memory", core.memory_bandwidth / 2, kMemoryLatency};
    found.remarks.push_back(
        "rates of matrix products are nominal: 'heddle calibrate' measures them");
  }
  Group whole{.name = "discovered", .kind = GroupKind::kCluster};
  AddMembers(whole, {1, {}, builder.Add(node)});
  found.cluster = std::move(builder).Finish(whole);
  return found;
}

Discovery Discover(int64_t ranks) {
  FoundGpus gpus = ReadGpus();
  std::vector<std::string> remarks;
  Processor processor = ThisProcessor();
  int64_t physical = PhysicalCores(processor, remarks);
  if (gpus.gpus.empty() && ranks == 0) ranks = physical;
  Discovery found =
      ClusterOf(processor, gpus.gpus.empty() ? MemoryBandwidth(physical) : 0, gpus, ranks);
  found.remarks.insert(found.remarks.end(), remarks.begin(), remarks.end());
  return found;
}

}  // namespace heddle
