// Options of a simulation besides program and cluster.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cost/constants.h"
#include "sim/kept.h"

namespace heddle {

// A slow device: everything it computes, or everything that passes its ports, takes `factor` times as long.
struct Slow {
  int64_t device = 0;
  double factor = 1;
  bool link = false;
  bool operator==(const Slow&) const = default;
};

struct SimOptions {
  StackCosts stack = FindStackCosts(kDefaultStack);
  std::vector<Slow> slow;
  // Measured profiles of kinds of devices, which replace their constants.
  std::vector<std::shared_ptr<const Profile>> profiles;
  bool fused_attention = true;  // see MemoryHabits
  bool fused_norms = true;      // norms and losses are fused
  bool fused_update = false;
  bool fold = true;  // simulate one device of each class of equal devices
  // Called from time to time by the simulating thread. Where it returns true, the simulation throws SimulationStopped.
  std::function<bool()> stopped = nullptr;
};

struct SimulationStopped : std::exception {
  const char* what() const noexcept override { return "the simulation was stopped"; }
};

inline void ThrowIfStopped(const SimOptions& options) {
  if (options.stopped && options.stopped()) throw SimulationStopped();
}

// Checks whether to stop after every so many pieces of work, for loops that may be long.
class StopPoll {
 public:
  // The options must outlive this object.
  explicit StopPoll(const SimOptions& options) : options_(options) {}
  void Count(size_t pieces = 1) {
    constexpr size_t kBetween = 1 << 13;
    counted_ += pieces;
    if (counted_ < kBetween) return;
    counted_ = 0;
    ThrowIfStopped(options_);
  }

 private:
  const SimOptions& options_;
  size_t counted_ = 0;
};

// The constants of a device: from its profile where there is one, otherwise from the table, as measured with `ranks`
// devices at work on one machine.
DeviceConstants ConstantsFor(const DeviceType& type, const SimOptions& options, int64_t ranks);

// What the kernels of these options keep and need in memory.
MemoryHabits HabitsOf(const SimOptions& options);

// Adds a profile to the options. Communication that the device cannot overlap with compute is then exposed.
void AddProfile(SimOptions& options, Profile profile);

// Whether the links of such a group count as links inside a node.
bool IsInside(GroupKind kind);

// The fraction of their bandwidth that the links inside and between nodes of a cluster reach, by level. The kind of the
// first device counts for all.
std::vector<double> LinkEfficiency(const Cluster& cluster, const SimOptions& options);

// Parses "device=3,factor=1.5" or "link=3,factor=2". Throws InputError.
Slow ParseSlow(const std::string& text);

}  // namespace heddle
