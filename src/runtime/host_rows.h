// Rows of numbers that live in the memory of the host and visit the device for a while: optimizer state that is
// offloaded.
//
//   HostRows rows(3, 1000, device, copies);    // zeros, pinned where the device is another than the CPU
//   rows.Fetch();                              // starts on the stream of copies
//   at::Tensor there = rows.Arrived();         // the current stream goes on when it is there
//   there[0].add_(1);
//   rows.Evict();                              // starts once the current stream has passed; `there` is let go
//   rows.host()                                // what came back, once the stream of copies has passed
//
// On the CPU, where there are no streams, each of them is done when it returns. The memory on the device is taken from
// the stream of copies and given back to it, so that what is fetched next may have it without anybody waiting.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>

#include "runtime/allocation_meter.h"

namespace heddle {

class HostRows {
 public:
  // Counted by `meter`, not by that of the device.
  HostRows(int64_t rows, int64_t elements, at::Device device,
           const std::optional<c10::Stream>& copies, const AllocationMeter& meter);

  const at::Tensor& host() const { return host_; }
  void Fetch();
  at::Tensor Arrived();
  void Evict();

 private:
  at::Tensor host_, there_;
  at::Device device_;
  std::optional<c10::Stream> copies_;
};

// A copy in the memory of the host, counted by `meter`, pinned where the device is another than the CPU; and one on the
// device. They are made on the current stream; the host waits for neither.
at::Tensor ToHost(const at::Tensor& there, const AllocationMeter& meter);
at::Tensor FromHost(const at::Tensor& host, at::Device device);

}  // namespace heddle
