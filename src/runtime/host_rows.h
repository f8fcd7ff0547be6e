// Rows of numbers that live in the memory of the host and visit the device for a while: optimizer state that is
// offloaded.
//
//   HostRows rows(3, 1000, device, host);      // zeros, pinned where the device is another than the CPU
//   rows.Fetch();                              // starts on the stream of fetches, once they are all back
//   at::Tensor there = rows.Arrived();         // the current stream goes on when it is there
//   there[0].add_(1);
//   rows.Evict();                              // starts on the stream of evictions once the current stream has passed
//   rows.Release();                            // the memory on the device is given up
//   rows.host()                                // what came back, once the stream of evictions has passed
//
// On the CPU, where there are no streams, each of them is done when it returns. The memory on the device is taken from
// the stream of fetches and given back to it, which then waits for the eviction: what is fetched next may have it, and
// the host waits for nothing.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "runtime/accelerator.h"
#include "runtime/allocation_meter.h"

namespace heddle {

// How much memory of the host may be taken, and a folder for files that are mapped beyond that. Any thread.
struct HostBudget {
  std::atomic<int64_t> left = 0;
  std::string folder;
};

// What somebody has of a budget, which gets it back. The budget outlives it.
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

// Where what is offloaded goes: the streams of its copies to the device and from it, where the device has streams, who
// counts its bytes, and what there may be of them.
struct HostSide {
  std::optional<c10::Stream> fetches, evictions;
  AllocationMeter meter;
  HostBudget* budget = nullptr;  // null: no limit
  std::shared_ptr<HostTraffic> traffic = std::make_shared<HostTraffic>();
};

// Zeros in memory of the host for what is on a device, pinned where that is another than the CPU; a file that is mapped, and gone
// with its last user, where the budget is spent. `share` has what it takes of the budget, and lives as long as the tensor. Throws
// RunError where it cannot be made.
at::Tensor NewOnHost(at::IntArrayRef sizes, at::ScalarType type, at::Device device,
                     const HostSide& host, HostShare& share);

class HostRows {
 public:
  // Counted by the host, not by the device. `host` outlives it.
  HostRows(int64_t rows, int64_t elements, at::Device device, const HostSide& host);

  const at::Tensor& host() const { return host_; }
  void Fetch();
  at::Tensor Arrived();
  void Evict();
  void Release();

 private:
  HostShare share_;
  at::Tensor host_, there_;
  at::Device device_;
  std::optional<c10::Stream> fetches_, evictions_;
  std::shared_ptr<HostTraffic> traffic_;
  StreamMark arrived_, evicted_;
};

// A copy in the memory of the host that is not for long, whatever the budget, and one on the device. They are made on the
// current stream; the host waits for neither.
at::Tensor ToHost(const at::Tensor& there, const AllocationMeter& meter);
at::Tensor FromHost(const at::Tensor& host, at::Device device);

}  // namespace heddle
