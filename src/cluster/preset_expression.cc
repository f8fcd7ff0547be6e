#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/error.h"
#include "base/nearest.h"
#include "cluster/presets.h"
#include "cluster/yaml_tree.h"

namespace heddle {
namespace {

constexpr std::int64_t kMaxLocalRanks = 4096;

const Preset& FindPreset(std::string_view name, std::string_view text) {
  const std::vector<std::string_view> names = PresetNames();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) {
    ThrowInput("{}: {}: no such preset; {}", Quoted(text), name.empty() ? "''" : Quoted(name),
               DidYouMean(name, names));
  }
  return Presets()[static_cast<std::size_t>(at - names.begin())];
}

// Parses a positive integer. A number that does not fit 64 bits gives a value that is too large for every limit.
std::int64_t ParseCount(std::string_view digits, std::string_view text) {
  const bool number = !digits.empty() && std::all_of(digits.begin(), digits.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
  std::int64_t count = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (number && result.ec == std::errc::result_out_of_range) count = kMaxDevices + 1;
  if (!number || count < 1) {
    ThrowInput("{}: {}: the count must be a whole number of at least 1, as in dgx-h100:16",
               Quoted(text), digits.empty() ? "''" : Quoted(digits));
  }
  return std::min(count, kMaxDevices + 1);
}

std::vector<std::int64_t> ParseShape(std::string_view digits, std::string_view text) {
  std::vector<std::int64_t> shape;
  for (;;) {
    const std::size_t x = digits.find('x');
    shape.push_back(ParseCount(digits.substr(0, x), text));
    if (x == digits.npos) return shape;
    digits.remove_prefix(x + 1);
    if (shape.size() > kMaxTorusDims) {
      ThrowInput("{}: a shape of more than {} dimensions; use fewer", Quoted(text), kMaxTorusDims);
    }
  }
}

// The factors of n into `dims` dimensions that are as equal as possible, ascending: 32 in three dimensions is 2 x 4 x
// 4.
std::vector<std::int64_t> EvenFactors(std::int64_t n, int dims) {
  if (dims == 1) return {n};
  std::vector<std::int64_t> best;
  for (std::int64_t d = 1; d <= n; ++d) {
    std::int64_t power = 1;
    for (int i = 0; i < dims; ++i) power *= d;
    if (power > n) break;  // the smallest factor is at most the root
    if (n % d != 0) continue;
    std::vector<std::int64_t> factors = EvenFactors(n / d, dims - 1);
    factors.insert(factors.begin(), d);
    if (best.empty() || factors.back() < best.back() ||
        (factors.back() == best.back() && factors.front() > best.front())) {
      best = std::move(factors);
    }
  }
  return best;
}

std::vector<std::int64_t> TorusShape(const Preset& preset, std::vector<std::int64_t> shape,
                                     std::string_view text) {
  std::int64_t chips = 1;
  for (std::int64_t dim : shape) chips = std::min(chips * dim, kMaxDevices + 1);
  if (chips > preset.max_chips) {
    ThrowInput("{}: {}: a {} pod has at most {} chips", Quoted(text), fmt::join(shape, "x"),
               preset.name, preset.max_chips);
  }
  if (shape.size() == 1) return EvenFactors(chips, preset.torus_dims);
  if (static_cast<int>(shape.size()) != preset.torus_dims) {
    ThrowInput("{}: {}: the torus of {} has {} dimensions; give the number of chips, or {}",
               Quoted(text), fmt::join(shape, "x"), preset.name, preset.torus_dims,
               preset.torus_dims == 2 ? "4x4" : "4x4x4");
  }
  return shape;
}

void RequireCountInLimits(const Preset& preset, std::int64_t count, std::string_view text) {
  const std::int64_t limit = preset.local ? kMaxLocalRanks : kMaxDevices / preset.devices;
  if (count > limit) {
    ThrowInput("{}: the count is too large; at most {} {}", Quoted(text), limit,
               preset.local ? "ranks" : "machines");
  }
}

Bytes MemoryOfThisMachine() {
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  if (pages < 1 || size < 1) ThrowRun("the size of this machine's memory cannot be read");
  return std::min(Bytes{pages} * size, kMaxMemory);
}

// Adds a group of these members. Returns an invalid id where the group or the members differ from others of the same
// name.
GroupId AddOf(ClusterBuilder& builder, Group group, const Members& members) {
  if (!members.device.valid() && !members.group.valid()) return {};
  AddMembers(group, members);
  return builder.Add(group);
}

GroupId AddLocal(ClusterBuilder& builder, const Preset& preset, std::int64_t ranks) {
  DeviceType core = *FindKnownDevice(preset.device);
  Group node = {.name = preset.name, .link = preset.link, .host_memory = MemoryOfThisMachine()};
  core.memory = Bytes{std::max(std::int64_t{1}, node.host_memory.value / ranks)};
  return AddOf(builder, std::move(node), {ranks, builder.Add(core), {}});
}

GroupId AddTorus(ClusterBuilder& builder, const Preset& preset,
                 const std::vector<std::int64_t>& shape) {
  std::int64_t chips = 1;
  for (std::int64_t dim : shape) chips *= dim;
  const std::int64_t hosts = (chips + preset.chips_per_host - 1) / preset.chips_per_host;
  Group slice = {.name = fmt::format("{}-{}", preset.name, fmt::join(shape, "x")),
                 .topology = Topology::kTorus,
                 .dims = shape,
                 .link = preset.network,
                 .host_memory = preset.host_memory * hosts};
  const DeviceTypeId type = builder.Add(*FindKnownDevice(preset.device));
  if (preset.devices == 1) {
    return AddOf(builder, std::move(slice), {chips, type, {}});
  }
  Group chip = {.name = preset.name + "-chip", .kind = GroupKind::kPart, .link = preset.link};
  const GroupId id = AddOf(builder, std::move(chip), {preset.devices, type, {}});
  return AddOf(builder, std::move(slice), {chips, {}, id});
}

GroupId AddMachine(ClusterBuilder& builder, const Preset& preset) {
  Group node = {.name = preset.name,
                .link = preset.link,
                .uplink = preset.uplink,
                .host_memory = preset.host_memory};
  const DeviceTypeId type = builder.Add(*FindKnownDevice(preset.device));
  if (preset.parts == 1) {
    node.topology = preset.topology;
    return AddOf(builder, std::move(node), {preset.devices, type, {}});
  }
  Group part = {.name = preset.name + "-socket",
                .kind = GroupKind::kPart,
                .topology = preset.topology,
                .link = preset.link,
                .uplink = {.bandwidth = preset.part_link.bandwidth}};
  const GroupId id = AddOf(builder, std::move(part), {preset.devices / preset.parts, type, {}});
  node.link = preset.part_link;
  return AddOf(builder, std::move(node), {preset.parts, {}, id});
}

}  // namespace

PresetExpression ParsePreset(std::string_view text) {
  const std::size_t colon = text.find(':');
  PresetExpression expression;
  expression.preset = &FindPreset(text.substr(0, colon), text);
  expression.counted = colon != text.npos;
  const Preset& preset = *expression.preset;
  if (expression.counted) {
    expression.shape = ParseShape(text.substr(colon + 1), text);
  } else {
    expression.shape = {1};
  }
  if (preset.torus_dims > 0) {
    expression.shape = TorusShape(preset, std::move(expression.shape), text);
    return expression;
  }
  if (expression.shape.size() > 1) {
    ThrowInput("{}: {} takes a count, not a shape, as in {}:16", Quoted(text), preset.name,
               preset.name);
  }
  RequireCountInLimits(preset, expression.shape[0], text);
  return expression;
}

GroupId AddPresetNode(ClusterBuilder& builder, const PresetExpression& expression) {
  const Preset& preset = *expression.preset;
  if (preset.torus_dims > 0) return AddTorus(builder, preset, expression.shape);
  if (preset.local) return AddLocal(builder, preset, expression.shape[0]);
  return AddMachine(builder, preset);
}

Cluster ClusterFromPreset(std::string_view text) {
  const PresetExpression expression = ParsePreset(text);
  const Preset& preset = *expression.preset;
  ClusterBuilder builder;
  const GroupId node = AddPresetNode(builder, expression);
  const bool machines = preset.torus_dims == 0 && !preset.local;
  Group whole = {.name = fmt::format("{}:{}", preset.name, fmt::join(expression.shape, "x")),
                 .kind = GroupKind::kCluster};
  AddMembers(whole, {machines ? expression.shape[0] : 1, {}, node});
  if (whole.members[0].count > 1) whole.link = preset.network;
  Cluster cluster = std::move(builder).Finish(std::move(whole));
  const std::vector<std::string> wrong = Verify(cluster);
  HEDDLE_CHECK(wrong.empty(), "{}: {}", text, wrong.front());
  return cluster;
}

}  // namespace heddle
