// Reads a cluster file, first into a tree of values with lines (yaml_tree.h), then from the top down into groups, each
// of which the builder stores once. Checks are made where the line is known; Verify at the end checks what spans the
// whole file.
#include <fmt/format.h>

#include <map>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/nearest.h"
#include "cluster/builder.h"
#include "cluster/presets.h"
#include "cluster/yaml.h"
#include "cluster/yaml_fields.h"

namespace heddle {
namespace {

using Keys = std::vector<std::string_view>;

const Keys kTopKeys = {"name", "device_types", "topology", "dims", "link", "nodes", "racks"};
const Keys kRackKeys = {"name", "count", "topology", "dims", "link", "uplink", "nodes", "racks"};
const Keys kNodeKeys = {"name",   "count",       "topology", "dims",    "link", "preset",
                        "uplink", "host_memory", "device",   "devices", "parts"};
const Keys kPartKeys = {"name",   "count",  "topology", "dims", "link",
                        "uplink", "device", "devices",  "parts"};
const Keys kDeviceKeys = {
    "name", "fp32", "tf32", "fp16", "bf16", "fp8", "memory", "memory_bandwidth", "host"};

class ClusterReader {
 public:
  explicit ClusterReader(std::string_view file) : file_(file) {}

  Cluster Read(const YamlValue& root) {
    const YamlFields top(root, file_, "", kTopKeys);
    if (top.Has("device_types")) ReadDeviceTypes(top);
    Group whole = {.name = top.Name("name", "cluster"), .kind = GroupKind::kCluster};
    const std::int64_t devices = ReadGroups(top, whole);
    RequireDevices(top, devices);
    FinishGroup(top, whole);
    if (builder_.HasGroup(whole.name)) {
      top.Refuse("name", whole.name, "a group in the cluster has that name; choose another name");
    }
    Cluster cluster = std::move(builder_).Finish(std::move(whole));
    const std::vector<std::string> wrong = Verify(cluster);
    if (!wrong.empty()) top.RefuseAll(wrong.front());
    return cluster;
  }

 private:
  void ReadDeviceTypes(const YamlFields& top) {
    const std::vector<YamlValue>& list = top.List("device_types");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const YamlFields fields(list[i], file_, top.PathOf("device_types", i), kDeviceKeys);
      DeviceType type;
      type.name = fields.Name("name", "");
      if (type.name.empty()) fields.RefuseMissing("name", "give the device type a name");
      bool computes = false;
      for (const RateName& rate : kRateNames) {
        type.peak.*rate.rate = fields.OptionalQuantity(rate.name, Unit::kRate, kMaxRate);
        computes |= type.peak.*rate.rate > 0;
      }
      if (!computes) fields.RefuseAll("no rate above 0; give fp32, tf32, fp16, bf16 or fp8");
      type.memory = Memory(fields.Quantity("memory", Unit::kMemory, kMemoryLimit));
      type.memory_bandwidth = fields.Quantity("memory_bandwidth", Unit::kBandwidth, kMaxBandwidth);
      type.host = fields.ReadLink("host");
      const DeviceType* known = FindKnownDevice(type.name);
      if (known != nullptr && *known != type && type.name != "cpu-core") {
        fields.Refuse("name", type.name,
                      "a known device of that name is different; choose another name");
      }
      if (!declared_.try_emplace(type.name, type).second) {
        fields.Refuse("name", type.name, "two device types have that name; choose another name");
      }
    }
  }

  static constexpr double kMemoryLimit = static_cast<double>(kMaxMemory.value);
  static Bytes Memory(double bytes) { return Bytes{static_cast<std::int64_t>(bytes)}; }

  DeviceTypeId ReadDevice(const YamlFields& fields) {
    const std::string name = fields.Text("device");
    const auto declared = declared_.find(name);
    const DeviceType* type =
        declared != declared_.end() ? &declared->second : FindKnownDevice(name);
    if (type == nullptr) {
      Keys names;
      for (const auto& [known, unused] : declared_) names.push_back(known);
      for (const DeviceType& known : KnownDevices()) names.push_back(known.name);
      fields.Refuse("device", Quoted(name), "no such device; " + DidYouMean(name, names));
    }
    const DeviceTypeId id = builder_.Add(*type);
    if (!id.valid())
      fields.Refuse("device", Quoted(name),
                    "a preset defines a different device type of that name; choose another name");
    return id;
  }

  // Reads the racks or nodes of the cluster or of a rack. Returns the number of devices.
  std::int64_t ReadGroups(const YamlFields& fields, Group& group) {
    if (fields.Has("nodes") == fields.Has("racks")) {
      fields.RefuseAll(fields.Has("nodes")
                           ? "has nodes and racks; remove one of them (racks contain nodes)"
                           : "has no nodes; list them under nodes:");
    }
    const bool racks = fields.Has("racks");
    const std::string_view key = racks ? "racks" : "nodes";
    const std::vector<YamlValue>& list = fields.List(key);
    std::int64_t devices = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const YamlFields member(list[i], file_, fields.PathOf(key, i), racks ? kRackKeys : kNodeKeys);
      devices =
          AddDevices(member, devices, racks ? ReadRack(member, group) : ReadNode(member, group));
    }
    return devices;
  }

  std::int64_t ReadRack(const YamlFields& fields, Group& parent) {
    Group rack = {.name = fields.Name("name", "rack"), .kind = GroupKind::kRack};
    const std::int64_t devices = ReadGroups(fields, rack);
    return AddGroup(fields, rack, devices, parent);
  }

  std::int64_t ReadNode(const YamlFields& fields, Group& parent) {
    if (fields.Has("preset")) return ReadPreset(fields, parent);
    Group node = {.kind = GroupKind::kNode};
    const double host = fields.OptionalQuantity("host_memory", Unit::kMemory, kMemoryLimit);
    node.host_memory = Memory(host);
    const std::int64_t devices = ReadParts(fields, node);
    return AddGroup(fields, node, devices, parent);
  }

  std::int64_t ReadPreset(const YamlFields& fields, Group& parent) {
    for (std::string_view key : kNodeKeys) {
      if (key != "preset" && key != "count" && fields.Has(key)) {
        fields.Refuse(key, "given",
                      "the preset defines it; remove it, or describe the node without a preset");
      }
    }
    const std::string text = fields.Text("preset");
    PresetExpression expression;
    try {
      expression = ParsePreset(text);
    } catch (const InputError& error) {
      ThrowInput("{}:{}: {}: {}", file_, fields.LineOf("preset"), fields.PathOf("preset"),
                 error.what());
    }
    const Preset& preset = *expression.preset;
    if (expression.counted && preset.torus_dims == 0 && !preset.local) {
      fields.Refuse(
          "preset", Quoted(text),
          fmt::format("write preset: {} and count: {}", preset.name, expression.shape[0]));
    }
    const GroupId id = AddPresetNode(builder_, expression);
    if (!id.valid()) {
      fields.Refuse(
          "preset", Quoted(text),
          "a different group or device type of the cluster has its name; rename that one");
    }
    const std::int64_t count = fields.Count("count", 1);
    AddMembers(parent, {count, {}, id});
    std::int64_t devices = preset.devices;
    if (preset.torus_dims > 0 || preset.local) {
      for (std::int64_t dim : expression.shape) devices *= dim;
    }
    return Times(fields, count, devices);
  }

  // Reads the contents of a node or part: `device` and `devices`, or `parts`.
  std::int64_t ReadParts(const YamlFields& fields, Group& group) {
    const std::string_view kind = kGroupKindNames[static_cast<std::size_t>(group.kind)];
    if (fields.Has("device") == fields.Has("parts")) {
      fields.RefuseAll(fields.Has("device") ? "has a device and parts; remove one of them"
                                            : "has no devices; give device: and devices:");
    }
    if (fields.Has("device")) {
      const DeviceTypeId type = ReadDevice(fields);
      const std::int64_t count = fields.Count("devices", 1);
      group.name = fields.Name(
          "name",
          fmt::format("{}x {}", count, builder_.type(type).name).substr(0, kMaxClusterName));
      AddMembers(group, {count, type, {}});
      return count;
    }
    if (fields.Has("devices")) fields.Refuse("devices", "given", "remove it, or the parts");
    group.name = fields.Name("name", kind);
    const std::vector<YamlValue>& list = fields.List("parts");
    std::int64_t devices = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const YamlFields part(list[i], file_, fields.PathOf("parts", i), kPartKeys);
      devices = AddDevices(part, devices, ReadPart(part, group));
    }
    return devices;
  }

  // Reads one entry of `parts`: either devices, or a group of devices.
  std::int64_t ReadPart(const YamlFields& fields, Group& parent) {
    if (fields.Has("devices") || fields.Has("parts") || !fields.Has("device")) {
      Group part = {.kind = GroupKind::kPart};
      const std::int64_t devices = ReadParts(fields, part);
      return AddGroup(fields, part, devices, parent);
    }
    for (std::string_view key : kPartKeys) {
      if (key != "device" && key != "count" && fields.Has(key)) {
        fields.Refuse(key, "given",
                      "plain devices have no such field; give devices: to make them a group");
      }
    }
    const DeviceTypeId type = ReadDevice(fields);
    const std::int64_t count = fields.Count("count", 1);
    AddMembers(parent, {count, type, {}});
    return count;
  }

  // Reads the fields that all groups have, and checks that the members are connected.
  void FinishGroup(const YamlFields& fields, Group& group) {
    group.topology = static_cast<Topology>(fields.Choice("topology", kTopologyNames));
    group.link = fields.ReadLink("link");
    std::int64_t members = 0;
    for (const Members& one : group.members) members += one.count;
    if (members > 1 && !group.link.exists()) {
      fields.RefuseMissing("link",
                           fmt::format("{} members are not connected; give the link between "
                                       "them its bandwidth and latency",
                                       members));
    }
    if (group.topology != Topology::kTorus) {
      if (fields.Has("dims")) fields.Refuse("dims", "given", "only a torus has dims; remove it");
      return;
    }
    group.dims = fields.Counts("dims", kMaxTorusDims);
    std::int64_t product = 1;
    for (std::int64_t dim : group.dims) product = TryMul(product, dim).value_or(INT64_MAX);
    if (product != members) {
      fields.Refuse("dims", fmt::format("{} places", product),
                    fmt::format("there are {} members; make the product equal", members));
    }
  }

  std::int64_t AddGroup(const YamlFields& fields, Group& group, std::int64_t devices,
                        Group& parent) {
    FinishGroup(fields, group);
    group.uplink = fields.ReadUplink("uplink");
    RequireDevices(fields, devices);
    const GroupId id = builder_.Add(group);
    if (!id.valid()) {
      fields.Refuse("name", Quoted(group.name),
                    "a different group has that name; choose another name");
    }
    const std::int64_t count = fields.Count("count", 1);
    AddMembers(parent, {count, {}, id});
    return Times(fields, count, devices);
  }

  void RequireDevices(const YamlFields& fields, std::int64_t devices) {
    if (devices > kMaxDevices) {
      fields.RefuseAll(fmt::format("more than {} devices; reduce the counts", kMaxDevices));
    }
  }
  std::int64_t Times(const YamlFields& fields, std::int64_t count, std::int64_t devices) {
    const std::int64_t all = TryMul(count, devices).value_or(kMaxDevices + 1);
    RequireDevices(fields, all);
    return all;
  }
  std::int64_t AddDevices(const YamlFields& fields, std::int64_t sum, std::int64_t more) {
    RequireDevices(fields, sum + more);  // both are at most kMaxDevices
    return sum + more;
  }

  std::string_view file_;
  ClusterBuilder builder_;
  std::map<std::string, DeviceType, std::less<>> declared_;
};

}  // namespace

Cluster ClusterFromYaml(std::string_view text, std::string_view what) {
  const YamlValue root = ParseYaml(text, what, "docs/clusters.md");
  return ClusterReader(what).Read(root);
}

}  // namespace heddle
