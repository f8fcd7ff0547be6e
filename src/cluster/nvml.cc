#include "cluster/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

namespace heddle {
namespace {

constexpr unsigned kMostGpus = 256;
constexpr unsigned kMostLinks = 18;
constexpr int kProcessorClock = 1;  // NVML_CLOCK_SM

std::string Printable(const char* text) {
  std::string out;
  for (; *text != 0 && out.size() < 96; ++text) out += *text >= ' ' && *text < 0x7f ? *text : '?';
  return out;
}

bool ReadGpu(const NvmlFunctions& nvml, unsigned index, GpuInfo& gpu) {
  NvmlFunctions::Device device = nullptr;
  std::array<char, 97> name = {};
  NvmlFunctions::Memory memory = {};
  if (nvml.handle(index, &device) != 0) return false;
  if (nvml.name(device, name.data(), static_cast<unsigned>(name.size() - 1)) != 0) return false;
  if (nvml.memory(device, &memory) != 0) return false;
  gpu.name = Printable(name.data());
  gpu.memory_bytes = static_cast<int64_t>(memory.total);
  unsigned value = 0;
  if (nvml.cores != nullptr && nvml.cores(device, &value) == 0) gpu.cores = value;
  if (nvml.clock != nullptr && nvml.clock(device, kProcessorClock, &value) == 0)
    gpu.clock_mhz = value;
  if (nvml.generation != nullptr && nvml.generation(device, &value) == 0)
    gpu.pcie_generation = static_cast<int>(value);
  if (nvml.width != nullptr && nvml.width(device, &value) == 0)
    gpu.pcie_width = static_cast<int>(value);
  for (unsigned link = 0; nvml.nvlink != nullptr && link < kMostLinks; ++link) {
    int active = 0;
    if (nvml.nvlink(device, link, &active) == 0 && active == 1) ++gpu.nvlinks;
  }
  return true;
}

template <typename Function>
void Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

FoundGpus ReadGpus(const NvmlFunctions& nvml) {
  FoundGpus found;
  if (int error = nvml.init(); error != 0) {
    found.remark = fmt::format("NVML cannot be started (error {})", error);
    return found;
  }
  unsigned count = 0;
  if (int error = nvml.count(&count); error != 0 || count > kMostGpus) {
    found.remark = fmt::format("NVML cannot count the GPUs (error {})", error);
    count = 0;
  }
  for (unsigned g = 0; g < count; ++g) {
    GpuInfo gpu;
    if (ReadGpu(nvml, g, gpu)) {
      found.gpus.push_back(std::move(gpu));
    } else {
      found.remark = fmt::format("NVML cannot read GPU {} of {}", g, count);
    }
  }
  if (count == 0 && found.remark.empty()) found.remark = "NVML finds no GPU";
  nvml.shutdown();
  return found;
}

FoundGpus ReadGpus() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr)
    return {{}, "no NVIDIA driver is installed (libnvidia-ml.so.1 is missing)"};
  NvmlFunctions nvml;
  Find(library, "nvmlInit_v2", nvml.init);
  Find(library, "nvmlShutdown", nvml.shutdown);
  Find(library, "nvmlDeviceGetCount_v2", nvml.count);
  Find(library, "nvmlDeviceGetHandleByIndex_v2", nvml.handle);
  Find(library, "nvmlDeviceGetName", nvml.name);
  Find(library, "nvmlDeviceGetMemoryInfo", nvml.memory);
  Find(library, "nvmlDeviceGetNumGpuCores", nvml.cores);
  Find(library, "nvmlDeviceGetMaxClockInfo", nvml.clock);
  Find(library, "nvmlDeviceGetMaxPcieLinkGeneration", nvml.generation);
  Find(library, "nvmlDeviceGetMaxPcieLinkWidth", nvml.width);
  Find(library, "nvmlDeviceGetNvLinkState", nvml.nvlink);
  bool whole = nvml.init && nvml.shutdown && nvml.count && nvml.handle && nvml.name && nvml.memory;
  FoundGpus found;
  if (whole) {
    found = ReadGpus(nvml);
  } else {
    found.remark = "libnvidia-ml.so.1 lacks required functions: update the driver";
  }
  dlclose(library);
  return found;
}

}  // namespace heddle
