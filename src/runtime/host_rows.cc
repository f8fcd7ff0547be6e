#include "runtime/host_rows.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/check.h"
#include "runtime/accelerator.h"

namespace heddle {
namespace {

c10::Stream CurrentStream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

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
  if (copies_) Order(*copies_, CurrentStream(device_));
  return there_;
}

void HostRows::Evict() {
  HEDDLE_CHECK(there_.defined(), "what is to be evicted is not there");
  if (copies_) Order(CurrentStream(device_), *copies_);
  StreamScope copying(copies_);
  host_.copy_(there_, /*non_blocking=*/true);
  there_.reset();
}

void HostRows::Order(const c10::Stream& first, const c10::Stream& then) {
  c10::Event passed(device_.type());
  passed.record(first);
  passed.block(then);
}

}  // namespace heddle
