#include "runtime/host_rows.h"

#include "base/check.h"
#include "runtime/accelerator.h"

namespace heddle {

HostRows::HostRows(int64_t rows, int64_t elements, at::Device device,
                   const std::optional<c10::Stream>& copies, const AllocationMeter& meter)
    : device_(device), copies_(copies) {
  AllocationMeter::Scope counted(meter);
  at::TensorOptions options = at::TensorOptions(at::kFloat);
  if (!device.is_cpu()) options = options.pinned_memory(true);
  host_ = at::empty({rows, elements}, options);
  host_.zero_();
}

void HostRows::Fetch() {
  HEDDLE_CHECK(!there_.defined(), "what is to be fetched is there already");
  StreamScope copying(copies_);
  there_ = at::empty(host_.sizes(), host_.options().device(device_).pinned_memory(false));
  there_.copy_(host_, /*non_blocking=*/true);
}

at::Tensor HostRows::Arrived() {
  HEDDLE_CHECK(there_.defined(), "what is to be used was not fetched");
  if (copies_) OrderStreams(*copies_, CurrentStream(device_));
  return there_;
}

void HostRows::Evict() {
  HEDDLE_CHECK(there_.defined(), "what is to be evicted is not there");
  if (copies_) OrderStreams(CurrentStream(device_), *copies_);
  StreamScope copying(copies_);
  host_.copy_(there_, /*non_blocking=*/true);
  there_.reset();
}

at::Tensor ToHost(const at::Tensor& there, const AllocationMeter& meter) {
  AllocationMeter::Scope counted(meter);
  at::TensorOptions options = there.options().device(at::kCPU);
  if (!there.is_cpu()) options = options.pinned_memory(true);
  return at::empty(there.sizes(), options).copy_(there, /*non_blocking=*/true);
}

at::Tensor FromHost(const at::Tensor& host, at::Device device) {
  at::TensorOptions options = host.options().device(device).pinned_memory(false);
  return at::empty(host.sizes(), options).copy_(host, /*non_blocking=*/true);
}

}  // namespace heddle
