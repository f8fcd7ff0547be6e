// Tensors in the memory of the host for what is on a device: within a budget, and in files that are mapped beyond it.
//
//   HostShare share;                        // lives as long as the tensor
//   at::Tensor zeros = NewOnHost({3, 1000}, at::kFloat, device, host, share);
//   at::Tensor copy = ToHost(there, host.meter);     // needed for a short time, whatever the budget
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/allocation_meter.h"

namespace heddle {

// How much memory of the host may be taken, and a folder for files that are mapped beyond that. Any thread.
struct HostBudget {
  std::atomic<int64_t> left = 0;
  std::string folder;
};

// What one owner has taken of a budget. The destructor gives it back. The budget outlives it.
class HostShare {
 public:
  HostShare() = default;
  HostShare(const HostShare&) = delete;
  HostShare& operator=(const HostShare&) = delete;
  ~HostShare() { GiveBack(); }

  // False where so much is not left; then nothing is taken.
  bool Take(HostBudget& budget, int64_t bytes);
  void GiveBack();

 private:
  HostBudget* budget_ = nullptr;
  int64_t bytes_ = 0;
};

// Bytes that were copied from the host and to it. Any thread.
struct HostTraffic {
  std::atomic<int64_t> fetched = 0, evicted = 0;
};

// Where offloaded state goes: the streams of its copies to the device and from it, where the device has streams, a
// meter of its bytes on the host, and how many of them there may be.
struct HostSide {
  std::optional<c10::Stream> fetches, evictions;
  AllocationMeter meter;
  HostBudget* budget = nullptr;  // null: no limit
  std::shared_ptr<HostTraffic> traffic = std::make_shared<HostTraffic>();
};

// Zeros in memory of the host for what is on a device, pinned where that is not the CPU. Where the budget is spent, a
// file that is mapped, and removed with its last user. `share` has what the tensor takes of the budget, and lives as
// long as the tensor. Throws RunError where it cannot be made.
at::Tensor NewOnHost(at::IntArrayRef sizes, at::ScalarType type, at::Device device,
                     const HostSide& host, HostShare& share);

// A copy in the memory of the host that is needed for a short time, whatever the budget, and one on the device. They
// are made on the current stream; the host waits for neither.
at::Tensor ToHost(const at::Tensor& there, const AllocationMeter& meter);
at::Tensor FromHost(const at::Tensor& host, at::Device device);

}  // namespace heddle
