#include "runtime/host_rows.h"

#include "base/check.h"
#include "runtime/accelerator.h"

namespace heddle {

HostRows::HostRows(int64_t rows, int64_t elements, at::Device device, const HostSide& host)
    : device_(device), fetches_(host.fetches), evictions_(host.evictions), traffic_(host.traffic) {
  host_ = NewOnHost({rows, elements}, at::kFloat, device, host, share_);
}

void HostRows::Fetch() {
  HEDDLE_CHECK(!there_.defined(), "what is to be fetched is there already");
  StreamScope copying(fetches_);
  evicted_.Wait(device_);
  there_ = at::empty(host_.sizes(), host_.options().device(device_).pinned_memory(false));
  there_.copy_(host_, /*non_blocking=*/true);
  traffic_->fetched += static_cast<int64_t>(host_.nbytes());
  arrived_.Set(fetches_);
}

at::Tensor HostRows::Arrived() {
  HEDDLE_CHECK(there_.defined(), "what is to be used was not fetched");
  arrived_.Wait(device_);  // not for what was fetched after it
  return there_;
}

void HostRows::Evict() {
  HEDDLE_CHECK(there_.defined(), "what is to be evicted is not there");
  if (evictions_) OrderStreams(CurrentStream(device_), *evictions_);
  StreamScope copying(evictions_);
  host_.copy_(there_, /*non_blocking=*/true);
  traffic_->evicted += static_cast<int64_t>(host_.nbytes());
  evicted_.Set(evictions_);
}

void HostRows::Release() {
  StreamScope copying(fetches_);
  evicted_.Wait(device_);
  there_.reset();
}

}  // namespace heddle
