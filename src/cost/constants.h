// All numbers of the cost model that are not derived. Each constant belongs to a kind of device, a level of links, or a
// named software stack; none belongs to a single run. `heddle validate` prints how many there are and which runs they
// were fitted to.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cluster/cluster.h"
#include "cluster/profile.h"
#include "cost/terms.h"

namespace heddle {

// The fractions of the data sheet figures that a kind of device reaches. Entries are found by a prefix of the device's
// name.
struct DeviceConstants {
  std::string_view prefix;
  int processors = 1;      // processors that share the tiles of a product
  double products = 0.75;  // fraction of the peak rate in a large product
  double fp8 = 0.6;        // fraction of the peak rate in fp8
  double attention = 0.5;  // fraction of the peak rate in fused attention
  double traffic = 0.8;    // fraction of the memory bandwidth
  double launch = 4e-6;    // seconds between two kernels
  double near = 0.8;       // fraction of the bandwidth of links inside a node
  double far = 0.8;        // fraction of the bandwidth of links between nodes
  std::shared_ptr<const LoadTimes> measured =
      nullptr;  // by `heddle calibrate`; replaces everything but `near` and `far`
};

// Which communication a stack overlaps with compute, and how its kernels differ from the best ones.
struct StackCosts {
  std::string_view name;
  std::string_view about;

  bool fused_elementwise = false;  // neighbouring memory-bound kernels are fused
  bool fused_loss = false;         // the loss makes no fp32 copies of the logits
  bool overlap_gradients = true;   // gradients are reduced during backward
  bool overlap_weights = true;     // ZeRO 3 gathers weights ahead of their use
  bool overlap_transfers = true;   // transfers between stages run beside compute
  bool frees_after_b = false;      // with split backward, B frees what W does not need

  // Factors on the times that the device's constants give.
  double products = 1;
  double attention = 1;
  double traffic = 1;
  double links = 1;
  double host = 0.5e-3;  // seconds per forward or backward of a micro-batch: data, the framework
};

std::span<const DeviceConstants> AllDeviceConstants();
std::span<const StackCosts> AllStackCosts();

// The entry with the longest prefix of the device's name, or the default entry where no prefix matches.
const DeviceConstants& ConstantsOf(const DeviceType& device);
// The constants with the measurements of the profile for `ranks` ranks at work.
DeviceConstants WithProfile(DeviceConstants constants,
                            const std::shared_ptr<const Profile>& profile, int64_t ranks);
// Throws an InputError that lists the known stacks.
const StackCosts& FindStackCosts(std::string_view name);
constexpr std::string_view kDefaultStack = "heddle";

// Number of constants for the shapes of kernels: three for each of five tiles, the start of a product's sum, and the
// recomputation in the backward of fused attention (compute.cc, kernel.cc).
constexpr int kShapeConstants = 17;

// How many constants the model has: these, the defaults of the two tables, and every value of an entry that differs
// from its default.
int ConstantCount();

}  // namespace heddle
