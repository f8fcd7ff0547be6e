#include "cluster/picture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "cluster/presets.h"
#include "cluster/quantity.h"
#include "cluster/topology.h"

namespace heddle {
namespace {

std::string Bandwidth(double value) { return FormatQuantity(value, Unit::kBandwidth); }
std::string Time(double value) { return FormatQuantity(value, Unit::kTime); }
std::string Memory(Bytes bytes) {
  return FormatQuantity(static_cast<double>(bytes.value), Unit::kMemory);
}

// The link of a group, as in "joined by a switch: nvlink4, 450 GB/s a device, 3 us".
std::string Joined(const Group& group) {
  if (!group.link.exists()) return "";
  std::string shape = fmt::format("a {}", kTopologyNames[static_cast<std::size_t>(group.topology)]);
  if (group.topology == Topology::kTorus) shape += fmt::format(" {}", fmt::join(group.dims, "x"));
  std::string_view each = " a link";
  if (group.topology == Topology::kSwitch) each = " a device";
  if (group.topology == Topology::kMesh) each = " a pair";
  return fmt::format("joined by {}: {}, {}{}, {}", shape, group.link.name,
                     Bandwidth(group.link.bandwidth), each, Time(group.link.latency));
}

// The properties of a group besides its members; empty where it has none.
std::string Extras(const Group& group) {
  std::vector<std::string> extras;
  if (group.uplink.bandwidth > 0) extras.push_back("uplink " + Bandwidth(group.uplink.bandwidth));
  if (group.uplink.per_device > 0) {
    extras.push_back(fmt::format("{}{} a device", group.uplink.bandwidth > 0 ? "" : "uplink ",
                                 Bandwidth(group.uplink.per_device)));
  }
  if (group.uplink.latency > 0) extras.push_back("uplink latency " + Time(group.uplink.latency));
  if (group.host_memory != Bytes{0}) extras.push_back("host memory " + Memory(group.host_memory));
  return fmt::format("{}", fmt::join(extras, ", "));
}

class Drawing {
 public:
  explicit Drawing(const Cluster& cluster) : cluster_(cluster) {}

  // Draws the members of the occurrence of a group whose first device is `first`. With `numbered`, device numbers are
  // printed, which differ between occurrences.
  void DrawMembers(const Group& group, std::int64_t first, bool numbered,
                   const std::string& margin) {
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      const Members& members = group.members[i];
      const bool last = i + 1 == group.members.size();
      const std::int64_t each = members.group.valid() ? DeviceCount(cluster_, members.group) : 1;
      const std::int64_t count = members.count * each;
      Line(margin + (last ? "└─ " : "├─ ") + Describe(members) +
           (numbered ? Numbers(first, count) : ""));
      first += count;
      if (!members.group.valid()) continue;
      const Group& inner = cluster_.group(members.group);
      const std::string below = margin + (last ? "   " : "│  ");
      for (const std::string& extra : {Joined(inner), Extras(inner)}) {
        if (!extra.empty()) Line(below + "│  " + extra);
      }
      DrawMembers(inner, first - count, numbered && members.count == 1, below);
    }
  }

  void Line(const std::string& text) { out_ += text + "\n"; }
  std::string Take() { return std::move(out_); }

 private:
  std::string Describe(const Members& members) const {
    const std::string times = members.count > 1 ? fmt::format("{} x ", members.count) : "";
    if (members.device.valid()) return times + cluster_.type(members.device).name;
    const Group& group = cluster_.group(members.group);
    return fmt::format("{}{} {}", times, kGroupKindNames[static_cast<std::size_t>(group.kind)],
                       group.name);
  }
  static std::string Numbers(std::int64_t first, std::int64_t count) {
    if (count == 1) return fmt::format("  (d{})", first);
    return fmt::format("  (d{}..d{})", first, first + count - 1);
  }

  const Cluster& cluster_;
  std::string out_;
};

// A table of rows of cells. The columns in `left` are aligned left, the others right.
std::string TableText(const std::vector<std::vector<std::string>>& rows,
                      const std::vector<std::size_t>& left) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool is_left = std::find(left.begin(), left.end(), i) != left.end();
      line += is_left ? fmt::format("{:<{}}  ", row[i], widths[i])
                      : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line;
    out += '\n';
  }
  return out;
}

std::string DeviceTable(const Cluster& cluster) {
  std::vector<std::int64_t> counts(cluster.device_types.size());
  const std::vector<std::int64_t> times = Occurrences(cluster);
  for (std::size_t i = 0; i < cluster.groups.size(); ++i) {
    for (const Members& members : cluster.groups[i].members) {
      if (members.device.valid()) counts[members.device.index()] += members.count * times[i];
    }
  }
  std::vector<std::vector<std::string>> rows = {
      {"device", "count", "memory", "bandwidth", "host link"}};
  for (const RateName& rate : kRateNames) rows[0].emplace_back(rate.name);
  rows[0].back() += " TFLOP/s";
  for (std::size_t i = 0; i < cluster.device_types.size(); ++i) {
    const DeviceType& type = cluster.device_types[i];
    rows.push_back({type.name, std::to_string(counts[i]), Memory(type.memory),
                    Bandwidth(type.memory_bandwidth),
                    type.host.exists() ? Bandwidth(type.host.bandwidth) : "-"});
    for (const RateName& rate : kRateNames) {
      const double value = type.peak.*rate.rate;
      rows.back().push_back(value > 0 ? fmt::format("{:.4g}", value / 1e12) : "-");
    }
  }
  return TableText(rows, {0});
}

}  // namespace

std::string DrawCluster(const Cluster& cluster) {
  Drawing drawing(cluster);
  const std::int64_t devices = DeviceCount(cluster);
  drawing.Line(fmt::format("{}: {} {}, {} of device memory{}", cluster.name, devices,
                           devices == 1 ? "device" : "devices", FormatBytes(TotalMemory(cluster)),
                           IsHomogeneous(cluster) ? "" : ", mixed"));
  const Group& whole = cluster.groups.back();
  if (whole.link.exists()) drawing.Line("│  " + Joined(whole));
  drawing.DrawMembers(whole, 0, true, "");
  return drawing.Take() + "\n" + DeviceTable(cluster);
}

std::string DrawPresets() {
  std::vector<std::vector<std::string>> rows = {
      {"preset", "devices", "device", "memory", "link", "network", "uplink"}};
  const auto link = [](const Link& one) {
    return one.exists() ? one.name + " " + Bandwidth(one.bandwidth) : "-";
  };
  for (const Preset& preset : Presets()) {
    const DeviceType& type = *FindKnownDevice(preset.device);
    std::string devices = std::to_string(preset.devices);
    if (preset.torus_dims > 0) devices += " a chip";
    if (preset.local) devices = "N";
    rows.push_back({preset.name, devices, type.name, preset.local ? "1/N" : Memory(type.memory),
                    link(preset.link), link(preset.network),
                    preset.uplink.bandwidth > 0 ? Bandwidth(preset.uplink.bandwidth) : "-"});
  }
  return TableText(rows, {0, 2, 4, 5});
}

}  // namespace heddle
