#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/shared_options.h"
#include "cluster/load.h"
#include "cluster/picture.h"
#include "cluster/presets.h"
#include "cluster/topology.h"
#include "cluster/yaml.h"

namespace heddle {
namespace {

struct ClusterArgs {
  std::string cluster;
  bool json = false;
  bool yaml = false;
};

Json LinkJson(const Link& link) {
  if (!link.exists()) return nullptr;
  Json json;
  json["name"] = link.name;
  json["bandwidth"] = link.bandwidth;
  json["latency"] = link.latency;
  return json;
}

Json TypeJson(const DeviceType& type) {
  Json json;
  json["name"] = type.name;
  for (const RateName& rate : kRateNames)
    json["peak"][std::string(rate.name)] = type.peak.*rate.rate;
  json["memory_bytes"] = type.memory.value;
  json["memory_bandwidth"] = type.memory_bandwidth;
  json["host"] = LinkJson(type.host);
  return json;
}

Json GroupJson(const Cluster& cluster, GroupId id, std::int64_t occurrences) {
  const Group& group = cluster.group(id);
  Json json;
  json["name"] = group.name;
  json["kind"] = kGroupKindNames[static_cast<std::size_t>(group.kind)];
  json["count"] = occurrences;
  json["devices"] = DeviceCount(cluster, id);
  json["topology"] = kTopologyNames[static_cast<std::size_t>(group.topology)];
  json["dims"] = group.dims;
  json["link"] = LinkJson(group.link);
  json["uplink"] = {{"bandwidth", group.uplink.bandwidth},
                    {"per_device", group.uplink.per_device},
                    {"latency", group.uplink.latency}};
  json["host_memory_bytes"] = group.host_memory.value;
  json["members"] = Json::array();
  for (const Members& members : group.members) {
    Json member;
    member["count"] = members.count;
    if (members.device.valid()) member["device"] = cluster.type(members.device).name;
    if (members.group.valid()) member["group"] = cluster.group(members.group).name;
    json["members"].push_back(std::move(member));
  }
  return json;
}

Json ClusterJson(const Cluster& cluster) {
  Json json;
  json["cluster"] = cluster.name;
  json["hash"] = HashToHex(StableHash(cluster));
  json["devices"] = DeviceCount(cluster);
  json["memory_bytes"] = TotalMemory(cluster).value;
  json["homogeneous"] = IsHomogeneous(cluster);
  json["device_types"] = Json::array();
  for (const DeviceType& type : cluster.device_types)
    json["device_types"].push_back(TypeJson(type));
  json["device_runs"] = Json::array();
  for (const DeviceRun& run : EqualRuns(cluster)) {
    json["device_runs"].push_back(
        {{"first", run.first.value}, {"count", run.count}, {"type", cluster.type(run.type).name}});
  }
  json["groups"] = Json::array();
  const std::vector<std::int64_t> occurrences = Occurrences(cluster);
  for (std::size_t i = 0; i < cluster.groups.size(); ++i) {
    json["groups"].push_back(GroupJson(cluster, GroupId::FromIndex(i), occurrences[i]));
  }
  return json;
}

std::vector<std::string> KnownDeviceNames() {
  std::vector<std::string> names;
  for (const DeviceType& type : KnownDevices()) names.push_back(type.name);
  return names;
}

Json PresetsJson() {
  Json json;
  json["presets"] = Json::array();
  for (const Preset& preset : Presets()) {
    Json one;
    one["name"] = preset.name;
    one["summary"] = preset.summary;
    one["device"] = preset.device;
    one["devices"] = preset.devices;
    one["link"] = LinkJson(preset.link);
    one["network"] = LinkJson(preset.network);
    one["uplink_bandwidth"] = preset.uplink.bandwidth;
    one["host_memory_bytes"] = preset.host_memory.value;
    json["presets"].push_back(std::move(one));
  }
  json["known_devices"] = KnownDeviceNames();
  return json;
}

void ListPresets(bool as_json) {
  if (as_json) {
    PrintJson(PresetsJson());
  } else {
    fmt::print(
        "{}\nPRESET:N is N machines (of a TPU slice: N chips, or a shape as in "
        "tpu-v4:4x4x4; of local: N ranks).\nBandwidths are for one direction.\n"
        "Devices for cluster files: {}.\n",
        DrawPresets(), fmt::join(KnownDeviceNames(), ", "));
  }
}

void ShowCluster(const ClusterArgs& args) {
  if (args.cluster.empty()) return ListPresets(args.json);
  const Cluster cluster = LoadCluster(args.cluster);
  if (args.json) {
    PrintJson(ClusterJson(cluster));
  } else if (args.yaml) {
    fmt::print("{}", ToYaml(cluster));
  } else {
    fmt::print("{}", DrawCluster(cluster));
  }
}

}  // namespace

void AddCluster(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "cluster", "show a cluster's devices, links and groups, or list the presets");
  auto args = std::make_shared<ClusterArgs>();
  command->add_option(
      "CLUSTER", args->cluster,
      "a preset such as dgx-h100:16, or a YAML file; without it, lists the presets");
  CLI::Option* json = AddJsonFlag(*command, args->json);
  command
      ->add_flag("--yaml", args->yaml, "print the cluster as a file, which can be changed and used")
      ->excludes(json);
  command->footer(
      "Examples:\n"
      "  heddle cluster\n"
      "  heddle cluster dgx-h100:16\n"
      "  heddle cluster tpu-v4:4x4x4 --yaml > mine.yaml\n\n"
      "Example of a file (docs/clusters.md has the whole schema):\n"
      "  link: {name: infiniband, bandwidth: 200 Gb/s, latency: 5 us}\n"
      "  nodes:\n"
      "    - {preset: dgx-a100, count: 2}\n"
      "    - {preset: dgx-h100, count: 1}");
  command->callback([args] { ShowCluster(*args); });
}

}  // namespace heddle
