// Reads the GPUs of this machine from NVIDIA's management library (NVML). The library comes with the driver and is
// opened at run time, so heddle builds and runs without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct GpuInfo {
  std::string name;  // "NVIDIA H200"
  int64_t memory_bytes = 0;
  int64_t cores = 0;      // cores that multiply and add; 0: not known
  int64_t clock_mhz = 0;  // the maximum; 0: not known
  int pcie_generation = 0, pcie_width = 0;
  int nvlinks = 0;  // number of active links
  friend bool operator==(const GpuInfo&, const GpuInfo&) = default;
};

// The functions of the library that are used, with its own signatures. Each returns 0 on success. Tests replace them.
// The functions after `memory` may be missing.
struct NvmlFunctions {
  using Device = void*;
  struct Memory {
    unsigned long long total, free, used;
  };
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned* count) = nullptr;
  int (*handle)(unsigned index, Device* device) = nullptr;
  int (*name)(Device device, char* name, unsigned length) = nullptr;
  int (*memory)(Device device, Memory* memory) = nullptr;
  int (*cores)(Device device, unsigned* cores) = nullptr;
  int (*clock)(Device device, int type, unsigned* mhz) = nullptr;
  int (*generation)(Device device, unsigned* generation) = nullptr;
  int (*width)(Device device, unsigned* width) = nullptr;
  int (*nvlink)(Device device, unsigned link, int* active) = nullptr;
};

struct FoundGpus {
  std::vector<GpuInfo> gpus;
  std::string remark;  // why there are none, or not all of them
};

FoundGpus ReadGpus(const NvmlFunctions& nvml);
// Reads the GPUs of this machine.
FoundGpus ReadGpus();

}  // namespace heddle
