// What the runtime asks of an accelerator beyond tensors and kernels. `cuda/` implements the second half of it where
// libtorch has CUDA, `no_cuda/` where it has not: there is no accelerator then.
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

// "cpu", "cuda", or "auto": cuda where there is one. Ranks of one machine take its accelerators in turn. Throws
// InputError where the one that is asked for is not there.
at::Device ChooseDevice(const std::string& name, int local_rank);
const std::vector<std::string>& DeviceNames();

// A stream of its own on an accelerator; nothing on the CPU.
std::optional<c10::Stream> NewStream(at::Device device);
// Waits until all that was started on the stream is done.
void WaitFor(const c10::Stream& stream);

// The one this thread starts work on.
c10::Stream CurrentStream(at::Device device);
// What `then` is given from now on waits for what `first` was given so far.
void OrderStreams(const c10::Stream& first, const c10::Stream& then);

// A point that a stream passes, for others to wait for; none on the CPU, where nobody waits.
class StreamMark {
 public:
  void Set(const std::optional<c10::Stream>& stream);  // behind all that it was given so far
  void Wait(at::Device device) const;                  // the current stream of the device does

 private:
  std::shared_ptr<c10::Event> passed_;
};

// While it lives, what this thread starts goes to the stream, where there is one.
class StreamScope {
 public:
  explicit StreamScope(const std::optional<c10::Stream>& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  std::optional<c10::Stream> before_;
};

// Before anything runs on a CUDA device: from now on its kernels give the same bits every time, or throw where libtorch
// has none that do. On the CPU they always give the same.
void UseDeterministicKernels();

// --- The half that differs.

int CudaDevices();  // 0 where there is no CUDA, no driver or no device
std::string CudaDeviceName(int index);
std::string CudaVersion();  // of the runtime and what the driver can do: "13.0, driver 13.0"

// The bytes of tensors on a CUDA device now, and at most since the last reset; what the allocator took for them.
struct DeviceMemory {
  int64_t bytes = 0, peak = 0, reserved = 0;
};
DeviceMemory MemoryOf(at::Device device);
void ResetPeakMemory(at::Device device);
// Tensors on a CUDA device take no more than this from now on: what would is an error.
void LimitMemory(at::Device device, int64_t bytes);

// Before anything is on a CUDA device: its memory is taken in pieces that grow and shrink, so that what comes and goes leaves
// no holes. An environment that says how memory is taken has the last word.
void UseExpandableSegments();
// Zeros in memory of the host from which CUDA devices copy beside other work: no more than asked for, where libtorch's own
// takes the next power of two. Throws RunError where there is not as much.
at::Tensor PinnedZeros(at::IntArrayRef sizes, at::ScalarType type);

// The work of a step on a CUDA device, to be repeated with one call. Shapes, addresses and numbers that the host
// passes to kernels are those of the capture.
class StepGraph {
 public:
  StepGraph();
  ~StepGraph();

  // Records what `work` starts on the current stream, which must not be the default one; nothing is executed.
  // Returns why where that was not possible; what `work` has made is then good for nothing. With `other`, a graph that
  // was captured and is never replayed at the same time, both use the same memory.
  std::optional<std::string> Capture(const std::function<void()>& work,
                                     const StepGraph* other = nullptr);
  void Replay();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// When the current stream passed some marks of a step. They may be captured: a graph passes them again in every replay.
class StepClock {
 public:
  explicit StepClock(size_t marks);
  ~StepClock();

  void Mark(size_t mark);
  // From the first mark to each, once the stream has passed them all.
  std::vector<double> Seconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// How long kernels ran on CUDA devices, by name, in the order of their time together, from one call to the next. Throws RunError where this build or machine cannot tell.
void StartKernelTimes();
std::vector<KernelTime> StopKernelTimes();

}  // namespace heddle
