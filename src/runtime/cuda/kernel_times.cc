// Times of kernels, from CUPTI's activity records: those of captured graphs are among them.
#include "base/error.h"
#include "runtime/accelerator.h"

#ifdef HEDDLE_WITH_CUPTI

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

namespace heddle {
namespace {

constexpr size_t kBufferBytes = size_t{8} << 20;

std::mutex mutex;
std::map<std::string, KernelTime>& times() {
  static auto* all = new std::map<std::string, KernelTime>;
  return *all;
}

void Add(const std::string& name, uint64_t start, uint64_t end) {
  std::lock_guard lock(mutex);
  KernelTime& time = times()[name];
  time.count += 1;
  time.seconds += static_cast<double>(end - start) * 1e-9;
}

void CUPTIAPI Provide(uint8_t** buffer, size_t* size, size_t* records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *records = 0;
}

void CUPTIAPI Take(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      // The members read here lie alike in all later versions of the record.
      auto* kernel = reinterpret_cast<CUpti_ActivityKernel9*>(record);
      Add(kernel->name == nullptr ? "?" : kernel->name, kernel->start, kernel->end);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      auto* copy = reinterpret_cast<CUpti_ActivityMemcpy5*>(record);
      Add("memcpy", copy->start, copy->end);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      auto* set = reinterpret_cast<CUpti_ActivityMemset4*>(record);
      Add("memset", set->start, set->end);
    }
  }
  std::free(buffer);
}

void Try(CUptiResult result) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = "";
  cuptiGetResultString(result, &text);
  ThrowRun("times of kernels: CUPTI says {}", text);
}

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

std::string Demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

}  // namespace

void StartKernelTimes() {
  cudaDeviceSynchronize();
  static const bool registered = [] {
    Try(cuptiActivityRegisterCallbacks(&Provide, &Take));
    return true;
  }();
  static_cast<void>(registered);
  for (CUpti_ActivityKind kind : kKinds) Try(cuptiActivityEnable(kind));
  std::lock_guard lock(mutex);
  times().clear();
}

std::vector<KernelTime> StopKernelTimes() {
  cudaDeviceSynchronize();
  Try(cuptiActivityFlushAll(0));
  for (CUpti_ActivityKind kind : kKinds) Try(cuptiActivityDisable(kind));
  std::vector<KernelTime> all;
  {
    std::lock_guard lock(mutex);
    for (const auto& [name, time] : times()) {
      all.push_back(time);
      all.back().name = Demangled(name);
    }
  }
  std::sort(all.begin(), all.end(), [](const KernelTime& a, const KernelTime& b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.name < b.name;
  });
  return all;
}

}  // namespace heddle

#else

namespace heddle {

void StartKernelTimes() { ThrowRun("times of kernels: heddle was built without CUPTI"); }
std::vector<KernelTime> StopKernelTimes() { return {}; }

}  // namespace heddle

#endif
