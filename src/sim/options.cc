#include "sim/options.h"

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "cluster/topology.h"

namespace heddle {

DeviceConstants ConstantsFor(const DeviceType& type, const SimOptions& options, int64_t ranks) {
  for (const std::shared_ptr<const Profile>& profile : options.profiles) {
    if (profile->device == type.name) return WithProfile(ConstantsOf(type), profile, ranks);
  }
  return ConstantsOf(type);
}

MemoryHabits HabitsOf(const SimOptions& options) {
  return {.frees_after_b = options.stack.frees_after_b,
          .keeps_scores = !options.fused_attention,
          .eager = !options.fused_norms,
          .fused_loss = options.stack.fused_loss,
          .fused_update = options.fused_update};
}

void AddProfile(SimOptions& options, Profile profile) {
  options.fused_attention = options.fused_attention && profile.fused_attention;
  options.stack.fused_loss = options.stack.fused_loss || profile.fused_loss;
  options.fused_update = options.fused_update || profile.fused_update;
  if (!profile.loads.empty()) options.fused_norms = false;  // as in heddle's own runtime
  if (!profile.overlap) {
    options.stack.overlap_gradients = false;
    options.stack.overlap_weights = false;
    options.stack.overlap_transfers = false;
  }
  options.profiles.push_back(std::make_shared<const Profile>(std::move(profile)));
}

bool IsInside(GroupKind kind) { return kind == GroupKind::kNode || kind == GroupKind::kPart; }

std::vector<double> LinkEfficiency(const Cluster& cluster, const SimOptions& options) {
  DeviceConstants constants = ConstantsFor(cluster.type(TypeOf(cluster, DeviceId{0})), options, 1);
  std::vector<double> efficiency;
  for (const GroupSpan& span : GroupsOf(cluster, DeviceId{0})) {
    bool inside = IsInside(cluster.group(span.group).kind);
    efficiency.push_back((inside ? constants.near : constants.far) / options.stack.links);
  }
  return efficiency;
}

Slow ParseSlow(const std::string& text) {
  auto fail = [&]() {
    ThrowInput(
        "--slow '{}': write device=3,factor=1.5 or link=3,factor=2 (a factor from 1 to 1000)",
        text);
  };
  Slow slow;
  size_t comma = text.find(',');
  std::string first = text.substr(0, comma);
  std::string second = comma == std::string::npos ? "" : text.substr(comma + 1);
  slow.link = first.starts_with("link=");
  size_t skip = slow.link ? 5 : 7;
  if (!slow.link && !first.starts_with("device=")) fail();
  if (!second.starts_with("factor=")) fail();
  auto read = [&](const std::string& from, size_t at, auto& value) {
    const char* end = from.data() + from.size();
    auto [stop, error] = std::from_chars(from.data() + at, end, value);
    if (error != std::errc{} || stop != end || at == from.size()) fail();
  };
  read(first, skip, slow.device);
  read(second, 7, slow.factor);
  if (slow.device < 0 || !std::isfinite(slow.factor) || slow.factor < 1 || slow.factor > 1000)
    fail();
  return slow;
}

}  // namespace heddle
