// Writes a cluster in the schema that yaml_read.cc reads, first as JSON and then as YAML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "cluster/quantity.h"
#include "cluster/yaml.h"

namespace heddle {
namespace {

Json LinkToJson(const Link& link) {
  Json json;
  json["name"] = link.name;
  json["bandwidth"] = PrintQuantity(link.bandwidth, Unit::kBandwidth);
  json["latency"] = PrintQuantity(link.latency, Unit::kTime);
  return json;
}

std::string PrintMemory(Bytes bytes) {
  return PrintQuantity(static_cast<double>(bytes.value), Unit::kMemory);
}

Json DeviceToJson(const DeviceType& type) {
  Json json;
  json["name"] = type.name;
  for (const RateName& rate : kRateNames) {
    const double value = type.peak.*rate.rate;
    if (value > 0) json[std::string(rate.name)] = PrintQuantity(value, Unit::kRate);
  }
  json["memory"] = PrintMemory(type.memory);
  json["memory_bandwidth"] = PrintQuantity(type.memory_bandwidth, Unit::kBandwidth);
  if (type.host.exists()) json["host"] = LinkToJson(type.host);
  return json;
}

Json UplinkToJson(const Uplink& uplink) {
  Json json;
  if (uplink.bandwidth > 0) json["bandwidth"] = PrintQuantity(uplink.bandwidth, Unit::kBandwidth);
  if (uplink.per_device > 0) {
    json["per_device"] = PrintQuantity(uplink.per_device, Unit::kBandwidth);
  }
  if (uplink.latency > 0) json["latency"] = PrintQuantity(uplink.latency, Unit::kTime);
  return json;
}

// `json` already has the name and, where there is one, the count.
void GroupToJson(const Cluster& cluster, const Group& group, Json& json) {
  if (group.link.exists() || group.topology != Topology::kSwitch) {
    json["topology"] = kTopologyNames[static_cast<std::size_t>(group.topology)];
  }
  if (group.topology == Topology::kTorus) json["dims"] = group.dims;
  if (group.link.exists()) json["link"] = LinkToJson(group.link);
  if (group.uplink != Uplink{}) json["uplink"] = UplinkToJson(group.uplink);
  if (group.host_memory != Bytes{0}) json["host_memory"] = PrintMemory(group.host_memory);
  if (group.members.size() == 1 && group.members[0].device.valid()) {
    json["device"] = cluster.type(group.members[0].device).name;
    json["devices"] = group.members[0].count;
    return;
  }
  const bool above_nodes = group.kind == GroupKind::kCluster || group.kind == GroupKind::kRack;
  bool racks = false;
  for (const Members& members : group.members) {
    racks |= members.group.valid() && cluster.group(members.group).kind == GroupKind::kRack;
  }
  Json& list = json[!above_nodes ? "parts" : racks ? "racks" : "nodes"];
  list = Json::array();
  for (const Members& members : group.members) {
    Json member;
    if (members.device.valid()) {
      member["device"] = cluster.type(members.device).name;
      member["count"] = members.count;
    } else {
      const Group& inner = cluster.group(members.group);
      member["name"] = inner.name;
      member["count"] = members.count;
      GroupToJson(cluster, inner, member);
    }
    list.push_back(std::move(member));
  }
}

// Whether YAML reads the text without quotes as the same text.
bool IsPlain(const std::string& text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (text.empty() || !letter(text.front()) || !letter(text.back())) return false;
  if (text == "null" || text == "Null" || text == "NULL") return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return letter(c) || c == ' ' || c == '.' || c == '/' || c == '_' || c == '-' || c == '+';
  });
}

std::string Scalar(const Json& json) {
  if (json.is_string() && IsPlain(json.get_ref<const std::string&>())) {
    return json.get<std::string>();
  }
  return json.dump();  // JSON texts and numbers are valid YAML
}

// Whether a value is written on one line: a map of scalars, such as a link, or a list of numbers.
bool IsFlat(const Json& json) {
  return std::all_of(json.begin(), json.end(),
                     [](const Json& value) { return value.is_primitive(); });
}

std::string Flat(const Json& json) {
  std::vector<std::string> items;
  for (const auto& [key, value] : json.items()) {
    items.push_back(json.is_object() ? fmt::format("{}: {}", key, Scalar(value)) : Scalar(value));
  }
  const std::string inside = fmt::format("{}", fmt::join(items, ", "));
  return json.is_object() ? "{" + inside + "}" : "[" + inside + "]";
}

void WriteMap(const Json& json, std::size_t indent, std::string& out) {
  bool first = true;  // whether it follows "- " or is at the top of the file
  for (const auto& [key, value] : json.items()) {
    if (!first) out.append(indent, ' ');
    first = false;
    if (value.is_primitive()) {
      fmt::format_to(std::back_inserter(out), "{}: {}\n", key, Scalar(value));
    } else if (value.is_object() || IsFlat(value)) {
      fmt::format_to(std::back_inserter(out), "{}: {}\n", key, Flat(value));
    } else {
      fmt::format_to(std::back_inserter(out), "{}:\n", key);
      for (const Json& item : value) {
        out.append(indent + 2, ' ');
        out += "- ";
        WriteMap(item, indent + 4, out);
      }
    }
  }
}

}  // namespace

Json ToJson(const Cluster& cluster) {
  Json json;
  json["name"] = cluster.name;
  json["device_types"] = Json::array();
  for (const DeviceType& type : cluster.device_types) {
    json["device_types"].push_back(DeviceToJson(type));
  }
  GroupToJson(cluster, cluster.groups.back(), json);
  return json;
}

std::string ToYaml(const Cluster& cluster) {
  std::string out;
  WriteMap(ToJson(cluster), 0, out);
  return out;
}

}  // namespace heddle
