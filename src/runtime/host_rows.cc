#include "runtime/host_rows.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/check.h"
#include "base/error.h"
#include "runtime/accelerator.h"

namespace heddle {

namespace {

at::Tensor MappedTensor(at::IntArrayRef sizes, at::ScalarType type, const std::string& folder) {
  static std::atomic<int64_t> count = 0;
  std::string path =
      (std::filesystem::path(folder) / fmt::format("heddle-spilled-{}-{}", getpid(), count++))
          .string();
  int64_t elements = 1;
  for (int64_t size : sizes) elements *= size;
  try {
    at::Tensor mapped = at::from_file(path, /*shared=*/true, elements, at::TensorOptions(type));
    std::filesystem::remove(path);  // it lives as long as it is mapped
    return mapped.view(sizes);
  } catch (const c10::Error& error) {
    ThrowRun("{}: cannot be mapped: {}", path, OneLine(error.what_without_backtrace()));
  }
}

}  // namespace

at::Tensor NewOnHost(at::IntArrayRef sizes, at::ScalarType type, at::Device device,
                     const HostSide& host) {
  if (host.budget != nullptr) {
    auto bytes = static_cast<int64_t>(c10::elementSize(type));
    for (int64_t size : sizes) bytes *= size;
    if (host.budget->left.fetch_sub(bytes) < bytes) {
      host.budget->left.fetch_add(bytes);
      if (bytes > 0) return MappedTensor(sizes, type, host.budget->folder);
    }
  }
  if (!device.is_cpu()) return PinnedZeros(sizes, type);
  AllocationMeter::Scope counted(host.meter);
  return at::zeros(sizes, type);
}

HostRows::HostRows(int64_t rows, int64_t elements, at::Device device, const HostSide& host)
    : device_(device), fetches_(host.fetches), evictions_(host.evictions), traffic_(host.traffic) {
  host_ = NewOnHost({rows, elements}, at::kFloat, device, host);
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
