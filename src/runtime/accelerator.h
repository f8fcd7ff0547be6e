// What the runtime needs of an accelerator beyond tensors and kernels: streams, memory, captured steps, clocks. The
// first half works with any device of libtorch. `cuda/` implements the second half where libtorch has CUDA, `no_cuda/`
// where it has not; then there is no accelerator.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "program/kernel_time.h"

namespace heddle {

// `name` is "cpu", "cuda", or "auto": cuda where there is such a device. Ranks of one machine take its devices in turn.
// Throws InputError where there is no such device.
at::Device ChooseDevice(const std::string& name, int local_rank);
const std::vector<std::string>& DeviceNames();

// A new stream on an accelerator; nothing on the CPU.
std::optional<c10::Stream> NewStream(at::Device device);
// The host waits until everything that was started on the stream is done.
void WaitFor(const c10::Stream& stream);

// The stream that this thread starts work on.
c10::Stream CurrentStream(at::Device device);
// Work that `then` gets from now on waits for the work that `first` has now. The host does not wait.
void OrderStreams(const c10::Stream& first, const c10::Stream& then);

// A point in a stream that other streams can wait for. On the CPU there is none, and Wait does nothing.
class StreamMark {
 public:
  void Set(const std::optional<c10::Stream>& stream);  // behind all work that it has now
  void Wait(at::Device device) const;  // the current stream of the device waits, the host does not

 private:
  std::shared_ptr<c10::Event> passed_;
};

// While it lives, this thread starts its work on the stream, if there is one.
class StreamScope {
 public:
  explicit StreamScope(const std::optional<c10::Stream>& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  std::optional<c10::Stream> before_;
};

// From now on kernels on CUDA devices give the same bits every time, or throw where libtorch has none that do. To be
// called before anything runs on such a device. On the CPU they always give the same bits.
void UseDeterministicKernels();

// --- The half that cuda/ and no_cuda/ implement.

int CudaDevices();  // 0 where there is no CUDA, no driver or no device
std::string CudaDeviceName(int index);
std::string CudaVersion();  // of the runtime and of the driver: "13.0, driver 13.0"

// The bytes of tensors on a CUDA device now, their peak since the last reset, and the bytes that the allocator
// reserved.
struct DeviceMemory {
  int64_t bytes = 0, peak = 0, reserved = 0;
};
DeviceMemory MemoryOf(at::Device device);
void ResetPeakMemory(at::Device device);
// From now on an allocation that would make tensors on a CUDA device take more than this is an error.
void LimitMemory(at::Device device, int64_t bytes);

// Has the CUDA allocator take memory in segments that grow and shrink, so that tensors that come and go leave no
// holes. To be called before anything is on such a device. Settings of the allocator in the environment are kept.
void UseExpandableSegments();
// Zeros in pinned memory of the host, from which CUDA devices copy while they do other work. Takes exactly as much as
// is asked for; libtorch's own allocator takes the next power of two. Throws RunError where there is not enough.
at::Tensor PinnedZeros(at::IntArrayRef sizes, at::ScalarType type);

// The work of a step on a CUDA device, captured to be repeated with one call. Shapes, addresses and numbers that the
// host passes to kernels stay those of the capture.
class StepGraph {
 public:
  StepGraph();
  ~StepGraph();

  // Records what `work` starts on the current stream, which must not be the default one; nothing is executed. Where
  // that is not possible it returns the reason, and the tensors that `work` has made are invalid. With `other`, a
  // captured graph that is never replayed at the same time, both use the same memory.
  std::optional<std::string> Capture(const std::function<void()>& work,
                                     const StepGraph* other = nullptr);
  void Replay();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The times at which the current stream passes marks of a step. Marks may be captured: every replay passes them again.
class StepClock {
 public:
  explicit StepClock(size_t marks);
  ~StepClock();

  void Mark(size_t mark);
  // From the first mark to each mark. Waits until the stream has passed them all.
  std::vector<double> Seconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// How long kernels ran on CUDA devices between both calls, by name, the longest total time first. Throws RunError
// where this build or machine cannot measure it.
void StartKernelTimes();
std::vector<KernelTime> StopKernelTimes();

}  // namespace heddle
