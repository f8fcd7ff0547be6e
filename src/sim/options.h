// What a simulation may be told besides program and cluster.
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

// Everything a device computes, or everything that passes its ports, takes `factor` times as long.
struct Slow {
  int64_t device = 0;
  double factor = 1;
  bool link = false;
  bool operator==(const Slow&) const = default;
};

struct SimOptions {
  StackCosts stack = FindStackCosts(kDefaultStack);
  std::vector<Slow> slow;
  // Of kinds of devices, in place of the constants they have.
  std::vector<std::shared_ptr<const Profile>> profiles;
  bool fused_attention = true;  // see MemoryHabits
  bool fused_norms = true;      // and losses
  bool fused_update = false;
  bool fold = true;  // simulate one device of each class of devices that are alike
  // Asked now and then, by the thread that simulates: true ends the simulation, which throws SimulationStopped.
  std::function<bool()> stopped = nullptr;
};

struct SimulationStopped : std::exception {
  const char* what() const noexcept override { return "the simulation was stopped"; }
};

inline void ThrowIfStopped(const SimOptions& options) {
  if (options.stopped && options.stopped()) throw SimulationStopped();
}

// Asks whether to stop after so many small pieces of work: for loops that may be long.
class StopPoll {
 public:
  // The options must outlive it.
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

// The constants of a device: of its profile, where there is one, in place of what kinds like it have; as measured with
// `ranks` of them at work on a machine.
DeviceConstants ConstantsFor(const DeviceType& type, const SimOptions& options, int64_t ranks);

// What these stacks and kernels keep and need in memory.
MemoryHabits HabitsOf(const SimOptions& options);

// Gives the options a profile: what the device cannot do beside computing is not hidden behind it.
void AddProfile(SimOptions& options, Profile profile);

// Groups whose links count as those inside a node.
bool IsInside(GroupKind kind);

// What the inner links of a cluster and those between its nodes give of their bandwidth, by level. The kind of the
// first device stands for all.
std::vector<double> LinkEfficiency(const Cluster& cluster, const SimOptions& options);

// "device=3,factor=1.5" or "link=3,factor=2". Throws InputError.
Slow ParseSlow(const std::string& text);

}  // namespace heddle
