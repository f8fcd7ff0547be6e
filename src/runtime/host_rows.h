// Rows of numbers that live in the memory of the host and are on the device for the time of an update: optimizer state
// that is offloaded.
//
//   HostRows rows(3, 1000, device, host);      // zeros, pinned where the device is not the CPU
//   rows.Fetch();                              // starts on the stream of fetches, behind the last eviction
//   at::Tensor there = rows.Arrived();         // the current stream goes on when it is there
//   there[0].add_(1);
//   rows.Evict();                              // starts on the stream of evictions once the current stream has passed
//   rows.Release();                            // the memory on the device is given up
//   rows.host()                                // what came back, once the stream of evictions has passed
//
// On the CPU, where there are no streams, each call is done when it returns. The memory on the device is taken from
// the stream of fetches and given back to it, which then waits for the eviction: the next fetch may have it, and the
// host waits for nothing.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/accelerator.h"
#include "runtime/host_tensors.h"

namespace heddle {

class HostRows {
 public:
  // The meter of the host counts it, not that of the device. `host` outlives it.
  HostRows(int64_t rows, int64_t elements, at::Device device, const HostSide& host);

  const at::Tensor& host() const { return host_; }
  void Fetch();          // it must not be there
  at::Tensor Arrived();  // it must have been fetched
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

}  // namespace heddle
