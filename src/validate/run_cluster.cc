#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cluster/builder.h"
#include "cluster/presets.h"
#include "validate/configure.h"

namespace heddle {
namespace {

constexpr double kGB = 1e9;
constexpr double kIntraLatency = 3e-6, kInterLatency = 5e-6;  // nominal, as in the presets

// `begins` is the beginning of published names. Link rates, in GB/s per device and direction, are used if none are
// published: they are a device's part of the rates of NVIDIA's own machine of that generation.
struct PublishedDevice {
  std::string_view begins;
  std::string_view known;
  double intra, inter;
  std::string_view machine;
};
constexpr PublishedDevice kDevices[] = {
    {"V100-SXM2-16GB", "v100-sxm2-16gb", 150, 6.25, "DGX-1"},
    {"V100-SXM2-32GB", "v100-sxm2-32gb", 150, 6.25, "DGX-1"},
    {"V100-SXM3-32GB", "v100-sxm2-32gb", 150, 6.25, "DGX-2"},  // equal except for its clock rates
    {"A100-SXM4-40GB", "a100-sxm-40gb", 300, 25, "DGX A100"},
    {"A100-SXM4-80GB", "a100-sxm-80gb", 300, 25, "DGX A100"},
    {"H100-SXM5-80GB", "h100-sxm", 450, 50, "DGX H100"},
    {"H100 96GB HBM2e", "h100-96gb-hbm2e", 450, 50, "DGX H100"},
    {"H200-SXM5-141GB", "h200-sxm", 450, 50, "DGX H200"},
    {"B200-SXM-180GB", "b200-sxm", 900, 50, "DGX B200"},
};

const PublishedDevice& DeviceOf(const PublishedRun& run) {
  const auto* found = std::find_if(
      std::begin(kDevices), std::end(kDevices),
      [&](const PublishedDevice& d) { return run.hardware.device.starts_with(d.begins); });
  if (found != std::end(kDevices)) return *found;
  std::string names;
  for (const PublishedDevice& d : kDevices) names += fmt::format(" '{}'", d.begins);
  ThrowInput("device: \"{}\": unknown; known ones begin with{}", run.hardware.device, names);
}

double RateOf(std::string_view what, std::optional<double> published, double fallback,
              std::string_view machine, std::vector<std::string>& remarks) {
  if (published) return *published * kGB;
  remarks.push_back(
      fmt::format("the rate {} is not published: {:g} GB/s per device are assumed, as in a {}",
                  what, fallback, machine));
  return fallback * kGB;
}

}  // namespace

Cluster ClusterOf(const PublishedRun& run, std::vector<std::string>& remarks) {
  const PublishedDevice& device = DeviceOf(run);
  int64_t per_node = std::min(run.hardware.gpus_per_node, run.hardware.gpus);
  Link nvlink{"nvlink",
              RateOf("within a node", run.hardware.interconnect.intra_rate, device.intra,
                     device.machine, remarks),
              kIntraLatency};
  ClusterBuilder builder;
  DeviceTypeId type = builder.Add(*FindKnownDevice(device.known));
  Group whole = {.name = fmt::format("{} x {}", run.hardware.gpus, device.known),
                 .kind = GroupKind::kCluster};
  double inter = 0;
  if (run.hardware.gpus > per_node) {
    inter = RateOf("between nodes", run.hardware.interconnect.inter_rate, device.inter,
                   device.machine, remarks);
    whole.link = {"network", inter, kInterLatency};
  }
  auto add = [&](std::string name, int64_t nodes, int64_t devices) {
    if (nodes == 0) return;
    Group node = {
        .name = std::move(name),
        .uplink = {.bandwidth = inter * static_cast<double>(devices), .per_device = inter}};
    if (devices > 1) node.link = nvlink;
    AddMembers(node, {devices, type, {}});
    AddMembers(whole, {nodes, {}, builder.Add(node)});
  };
  add("node", run.hardware.gpus / per_node, per_node);
  if (int64_t rest = run.hardware.gpus % per_node; rest > 0) {
    add("last-node", 1, rest);
    remarks.push_back(fmt::format("the last node has only {} of {} devices", rest, per_node));
  }
  Cluster cluster = std::move(builder).Finish(std::move(whole));
  std::vector<std::string> wrong = Verify(cluster);
  if (!wrong.empty()) ThrowInput("interconnect: {}", wrong.front());
  return cluster;
}

}  // namespace heddle
