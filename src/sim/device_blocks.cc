#include "sim/device_blocks.h"

#include <algorithm>
#include <functional>

namespace heddle {
namespace {

// Whether all devices have blocks of the same size.
bool Even(const Mesh& mesh, const Sharding& sharding) {
  for (const ShardedDim& dim : sharding.dims) {
    for (const Parts& term : dim.terms) {
      for (const Part& part : term) {
        if (part.axes != 0 && part.size % GroupSize(mesh, part.axes) != 0) return false;
        for (size_t a = 0; a < mesh.axes.size(); ++a) {
          if (Contains(part.axes, a) && !mesh.axes[a].shares.empty()) return false;
        }
      }
    }
  }
  return true;
}

}  // namespace

uint64_t MixHashes(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0xD1B54A32D192ED03u + (a << 6) + (a >> 2));
  x ^= x >> 31;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 29;
  return x;
}

DeviceBlocks::DeviceBlocks(const Program& program, const StageProgram& stage) : stage_(stage) {
  auto add = [&](const Sharding& sharding) {
    bool known = Even(stage.mesh, sharding) ||
                 std::find(shardings_.begin(), shardings_.end(), sharding) != shardings_.end();
    if (!known) shardings_.push_back(sharding);
  };
  for (size_t n = 0; n < stage.strategies.size(); ++n) {
    const Strategy& strategy = stage.strategies[n];
    for (size_t a = 0; a < strategy.size(); ++a) {
      if (!strategy[a].is_split()) continue;
      Part part{program.micro_rules[n].factors[strategy[a].factor_index()].size, 0};
      for (size_t b = 0; b < strategy.size(); ++b) {
        if (strategy[b] == strategy[a]) part.axes |= AxisSet(b);
      }
      add({.dims = {{{{part}}}}});
    }
  }
  for (const Local& local : stage.locals) add(local.sharding);
  for (const ParameterGroup& group : stage.groups) {
    for (const ParameterSlot& slot : group.slots) add(slot.sharding);
    if (group.server >= 0) served_.push_back(&group);
    for (const ParameterSlot& slot : group.slots) {
      bool differ = std::adjacent_find(slot.kept.begin(), slot.kept.end(), std::not_equal_to<>()) !=
                    slot.kept.end();
      if (differ) pruned_.push_back(&slot);
    }
  }
}

uint64_t DeviceBlocks::At(int64_t device) const {
  if (shardings_.empty() && served_.empty() && pruned_.empty()) return 0;
  Position position = PositionIn(stage_, device);
  uint64_t hash = 1;
  for (const Sharding& sharding : shardings_) {
    for (int64_t size : LocalShape(stage_.mesh, sharding, position)) {
      hash = MixHashes(hash, static_cast<uint64_t>(size));
    }
  }
  for (const ParameterGroup* group : served_) {
    hash = MixHashes(hash, Updates(stage_, *group, position) ? 1 : 0);
  }
  for (const ParameterSlot* slot : pruned_) {
    hash = MixHashes(hash, static_cast<uint64_t>(KeptElements(stage_, *slot, position)));
  }
  return hash;
}

}  // namespace heddle
