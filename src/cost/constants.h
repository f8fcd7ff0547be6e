// Every number the cost model did not derive. A constant belongs to a kind of device, a level of links, or a named
// software stack; none belongs to a run. `heddle validate` prints how many there are and what they were fitted on.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cluster/cluster.h"
#include "cluster/profile.h"
#include "cost/terms.h"

namespace heddle {

// How much of its data sheet a kind of device gives; found by the beginning of the device's name.
struct DeviceConstants {
  std::string_view prefix;
  int processors = 1;      // that share the tiles of a product
  double products = 0.75;  // of the peak rate, in a large product
  double fp8 = 0.6;        // of the peak rate in fp8
  double attention = 0.5;  // of the peak rate, in fused attention
  double traffic = 0.8;    // of the memory bandwidth
  double launch = 4e-6;    // seconds between two kernels
  double near = 0.8;       // of the bandwidth of links inside a node
  double far = 0.8;        // of the bandwidth of links between nodes
  std::shared_ptr<const LoadTimes> measured =
      nullptr;  // by `heddle calibrate`: in place of all but near and far
};

// What communication a stack hides behind compute, and how its kernels differ from the best ones.
struct StackCosts {
  std::string_view name;
  std::string_view about;

  bool fused_elementwise = false;  // neighbours that only move memory are one kernel
  bool fused_loss = false;         // and the loss makes no fp32 copies of the logits
  bool overlap_gradients = true;   // their reduction runs beside backward
  bool overlap_weights = true;     // ZeRO 3 gathers ahead
  bool overlap_transfers = true;   // between stages
  bool frees_after_b = false;      // where W comes apart, B lets go of what W does not need

  // Time of a term over what the device's constants say.
  double products = 1;
  double attention = 1;
  double traffic = 1;
  double links = 1;
  double host = 0.5e-3;  // seconds per forward or backward of a micro-batch: data, the framework
};

std::span<const DeviceConstants> AllDeviceConstants();
std::span<const StackCosts> AllStackCosts();

// The entry with the longest prefix of the name; one for all others where none is.
const DeviceConstants& ConstantsOf(const DeviceType& device);
// The same with what was measured in place of it, with so many ranks at work.
DeviceConstants WithProfile(DeviceConstants constants,
                            const std::shared_ptr<const Profile>& profile, int64_t ranks);
// Throws InputError naming those there are.
const StackCosts& FindStackCosts(std::string_view name);
constexpr std::string_view kDefaultStack = "heddle";

// Numbers of the shapes of kernels: three for each of five tiles, the start of a product's sum, and what fused
// attention's backward does again (compute.cc, kernel.cc).
constexpr int kShapeConstants = 17;

// How many numbers the model has: these, the defaults of the two tables and where entries differ from them.
int ConstantCount();

}  // namespace heddle
