#include "runtime/accelerator.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>

#include "base/error.h"
#include "runtime/torch_compat.h"

namespace heddle {

const std::vector<std::string>& DeviceNames() {
  static const std::vector<std::string> names = {"cpu", "cuda", "auto"};
  return names;
}

at::Device ChooseDevice(const std::string& name, int local_rank) {
  if (name == "cpu") return at::kCPU;
  int devices = CudaDevices();
  if (devices > 0) {
    return {at::kCUDA, static_cast<c10::DeviceIndex>(std::max(0, local_rank) % devices)};
  }
  if (name == "auto") return at::kCPU;
  ThrowInput(
      "--device {}: there is no CUDA device, or this heddle was built against a libtorch without "
      "CUDA; use --device cpu",
      name);
}

void UseDeterministicKernels() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // what cuBLAS asks for
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  LeaveEmptyTensorsEmpty();
}

std::optional<c10::Stream> NewStream(at::Device device) {
  if (device.is_cpu()) return std::nullopt;
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

void WaitFor(const c10::Stream& stream) {
  c10::impl::VirtualGuardImpl(stream.device_type()).synchronizeStream(stream);
}

c10::Stream CurrentStream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void OrderStreams(const c10::Stream& first, const c10::Stream& then) {
  c10::Event passed(first.device_type());
  passed.record(first);
  passed.block(then);
}

void StreamMark::Set(const std::optional<c10::Stream>& stream) {
  if (!stream) return;
  passed_ = std::make_shared<c10::Event>(stream->device_type());
  passed_->record(*stream);
}

void StreamMark::Wait(at::Device device) const {
  if (passed_) passed_->block(CurrentStream(device));
}

StreamScope::StreamScope(const std::optional<c10::Stream>& stream) {
  if (!stream) return;
  c10::impl::VirtualGuardImpl guard(stream->device_type());
  guard.setDevice(stream->device());
  before_ = guard.exchangeStream(*stream);
}

StreamScope::~StreamScope() {
  if (before_) c10::impl::VirtualGuardImpl(before_->device_type()).exchangeStream(*before_);
}

}  // namespace heddle
