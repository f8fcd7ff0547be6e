// libtorch without CUDA: there is no accelerator, so nothing here is ever asked for one.
#include "runtime/accelerator.h"

#include "base/check.h"
#include "base/error.h"

namespace heddle {

int CudaDevices() { return 0; }

std::string CudaDeviceName(int index) {
  HEDDLE_CHECK(false, "CUDA device {} of none", index);
  return "";
}

std::string CudaVersion() {
  HEDDLE_CHECK(false, "the version of no CUDA");
  return "";
}

DeviceMemory MemoryOf(at::Device device) {
  HEDDLE_CHECK(false, "memory of {}", device.str());
  return {};
}

void ResetPeakMemory(at::Device device) { HEDDLE_CHECK(false, "memory of {}", device.str()); }
void UseExpandableSegments() {}
at::Tensor PinnedZeros(at::IntArrayRef sizes, at::ScalarType) {
  HEDDLE_CHECK(false, "pinned memory of {} dimensions without CUDA", sizes.size());
  return {};
}
void LimitMemory(at::Device device, int64_t) { HEDDLE_CHECK(false, "memory of {}", device.str()); }

struct StepGraph::State {};
StepGraph::StepGraph() { HEDDLE_CHECK(false, "a graph without CUDA"); }
StepGraph::~StepGraph() = default;
std::optional<std::string> StepGraph::Capture(const std::function<void()>&, const StepGraph*) {
  return "no CUDA";
}
void StepGraph::Replay() {}

struct StepClock::State {};
StepClock::StepClock(size_t) { HEDDLE_CHECK(false, "a clock without CUDA"); }
StepClock::~StepClock() = default;
void StepClock::Mark(size_t) {}
std::vector<double> StepClock::Seconds() const { return {}; }

void StartKernelTimes() { ThrowRun("kernel times need a libtorch with CUDA"); }
std::vector<KernelTime> StopKernelTimes() { return {}; }

}  // namespace heddle
