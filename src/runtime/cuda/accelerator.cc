// CUDA devices: memory, and steps captured as graphs.
#include "runtime/accelerator.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "runtime/kernel_threads.h"

namespace heddle {

namespace {
constexpr char kNoPinned[] =
    "{} more of the host's memory cannot be pinned: take a smaller model or a machine with more";
}  // namespace

int CudaDevices() { return static_cast<int>(c10::cuda::device_count()); }

std::string CudaDeviceName(int index) {
  return at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index))->name;
}

std::string CudaVersion() {
  auto words = [](int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  };
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  return fmt::format("{}, driver {}", words(runtime), words(driver));
}

DeviceMemory MemoryOf(at::Device device) {
  if (!c10::cuda::CUDACachingAllocator::get()->initialized()) return {};
  auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  return {stats.allocated_bytes[0].current, stats.allocated_bytes[0].peak,
          stats.reserved_bytes[0].peak};
}

void ResetPeakMemory(at::Device device) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
}

void UseExpandableSegments() {
  setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", /*overwrite=*/0);
}

at::Tensor PinnedZeros(at::IntArrayRef sizes, at::ScalarType type) {
  auto bytes = c10::elementSize(type);
  for (int64_t size : sizes) bytes *= static_cast<size_t>(size);
  if (bytes == 0) return at::zeros(sizes, type);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ThrowRun(kNoPinned, FormatBytes(Bytes{static_cast<int64_t>(bytes)}));
  madvise(memory, bytes, MADV_HUGEPAGE);
  // Pages are made by all threads; pinning them would make them one by one.
  constexpr size_t kPiece = size_t{64} << 20, kPage = 4096;
  ForEachInThreads(static_cast<int64_t>((bytes + kPiece - 1) / kPiece), [&](int64_t at) {
    auto* begin = static_cast<volatile char*>(memory) + static_cast<size_t>(at) * kPiece;
    size_t size = std::min(kPiece, bytes - static_cast<size_t>(at) * kPiece);
    for (size_t b = 0; b < size; b += kPage) begin[b] = 0;
  });
  if (cudaHostRegister(memory, bytes, cudaHostRegisterPortable) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    munmap(memory, bytes);
    ThrowRun(kNoPinned, FormatBytes(Bytes{static_cast<int64_t>(bytes)}));
  }
  auto release = [bytes](void* held) {
    cudaHostUnregister(held);
    munmap(held, bytes);
  };
  return at::from_blob(memory, sizes, release, at::TensorOptions(type));
}

void LimitMemory(at::Device device, int64_t bytes) {
  at::empty({1}, at::TensorOptions().device(device));  // the allocator must be there
  auto all = static_cast<double>(at::cuda::getDeviceProperties(device.index())->totalGlobalMem);
  c10::cuda::CUDACachingAllocator::setMemoryFraction(
      std::min(1.0, static_cast<double>(bytes) / all), device.index());
}

struct StepGraph::State {
  at::cuda::CUDAGraph graph;
};

StepGraph::StepGraph() : state_(std::make_unique<State>()) {}
StepGraph::~StepGraph() = default;

std::optional<std::string> StepGraph::Capture(const std::function<void()>& work,
                                              const StepGraph* other) {
  try {
    // Threads of autograd work for the capture, too; calls that would wait are errors in any of them.
    if (other != nullptr) {
      state_->graph.capture_begin(other->state_->graph.pool());
    } else {
      state_->graph.capture_begin();
    }
    work();
    state_->graph.capture_end();
    return std::nullopt;
  } catch (const std::exception& error) {
    std::string why = OneLine(error.what());
    // The stream must leave the capture, which has failed anyway.
    cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream, &status);
    if (status != cudaStreamCaptureStatusNone) {
      try {
        state_->graph.capture_end();
      } catch (const std::exception&) {
      }
    }
    static_cast<void>(cudaGetLastError());
    return why;
  }
}

void StepGraph::Replay() { state_->graph.replay(); }

struct StepClock::State {
  std::vector<cudaEvent_t> events;
};

namespace {

void Try(cudaError_t error) {
  if (error != cudaSuccess) ThrowRun("CUDA: {}", cudaGetErrorString(error));
}

}  // namespace

StepClock::StepClock(size_t marks) : state_(std::make_unique<State>()) {
  state_->events.resize(marks);
  for (cudaEvent_t& event : state_->events) Try(cudaEventCreate(&event));
}

StepClock::~StepClock() {
  for (cudaEvent_t event : state_->events) cudaEventDestroy(event);
}

void StepClock::Mark(size_t mark) {
  cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  Try(cudaStreamIsCapturing(stream, &status));
  // Captured events are the graph's own unless they are said to be of use outside.
  unsigned flags =
      status == cudaStreamCaptureStatusActive ? cudaEventRecordExternal : cudaEventRecordDefault;
  Try(cudaEventRecordWithFlags(state_->events[mark], stream, flags));
}

std::vector<double> StepClock::Seconds() const {
  std::vector<double> seconds;
  for (cudaEvent_t event : state_->events) {
    float milliseconds = 0;
    Try(cudaEventElapsedTime(&milliseconds, state_->events.front(), event));
    seconds.push_back(1e-3 * static_cast<double>(milliseconds));
  }
  return seconds;
}

}  // namespace heddle
