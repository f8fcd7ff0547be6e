// The table of known devices. Rates are the vendors' peaks for dense matrix products accumulated in fp32; where a data
// sheet gives a rate with sparsity, half of it is used. Device memory that vendors give in GB is in GiB: a board of 80
// GB reports 80 x 2^30 bytes, less what the driver keeps. Latencies of host links are nominal, because no vendor
// publishes them.
#include <algorithm>

#include "cluster/presets.h"

namespace heddle {
namespace {

// x16 slots, in one direction: PCIe 3 has 8 GT/s x 16 lanes x 128/130 = 15.75 GB/s, and each generation doubles it.
const Link kPcie3 = {"pcie3", 15.75e9, 5e-6};
const Link kPcie4 = {"pcie4", 31.5e9, 5e-6};
const Link kPcie5 = {"pcie5", 63e9, 5e-6};
// Power9 to V100: two NVLink 2 bricks of 25 GB/s.
const Link kNvlinkHost = {"nvlink2-host", 50e9, 5e-6};

std::vector<DeviceType> DeviceTable() {
  const auto gib = [](std::int64_t count) { return kGiB * count; };
  return {
      // Tesla P100 data sheet, PCIe with 12 GB: 9.3 fp32, 18.7 fp16 TFLOPS; 549 GB/s.
      {"p100-pcie-12gb", {.fp32 = 9.3e12, .fp16 = 18.7e12}, gib(12), 549e9, kPcie3},
      // GeForce GTX 1080 Ti: 3584 cores x 2 x 1.582 GHz = 11.3 fp32 TFLOPS, fp16 at 1/64 of it;
      // 11 GB at 484 GB/s.
      {"gtx-1080ti", {.fp32 = 11.3e12, .fp16 = 0.177e12}, gib(11), 484e9, kPcie3},
      // Tesla V100 data sheet, SXM2: 15.7 fp32, 125 tensor TFLOPS; 900 GB/s; 16 or 32 GB.
      {"v100-sxm2-16gb", {.fp32 = 15.7e12, .fp16 = 125e12}, gib(16), 900e9, kPcie3},
      {"v100-sxm2-32gb", {.fp32 = 15.7e12, .fp16 = 125e12}, gib(32), 900e9, kPcie3},
      // The same device connected to a Power9 (Summit).
      {"v100-power9-16gb", {.fp32 = 15.7e12, .fp16 = 125e12}, gib(16), 900e9, kNvlinkHost},
      // Tesla V100 data sheet, PCIe: 14 fp32, 112 tensor TFLOPS; 900 GB/s; 16 or 32 GB.
      {"v100-pcie-32gb", {.fp32 = 14e12, .fp16 = 112e12}, gib(32), 900e9, kPcie3},
      // A100 data sheet, SXM: 19.5 fp32, 156 tf32, 312 fp16 and bf16 TFLOPS; 40 GB at 1555 GB/s,
      // 80 GB at 2039 GB/s.
      {"a100-sxm-40gb",
       {.fp32 = 19.5e12, .tf32 = 156e12, .fp16 = 312e12, .bf16 = 312e12},
       gib(40),
       1555e9,
       kPcie4},
      {"a100-sxm-80gb",
       {.fp32 = 19.5e12, .tf32 = 156e12, .fp16 = 312e12, .bf16 = 312e12},
       gib(80),
       2039e9,
       kPcie4},
      // H100 architecture white paper, SXM5, dense: 66.9 fp32, 494.7 tf32, 989.4 fp16 and bf16,
      // 1978.9 fp8 TFLOPS; 80 GB at 3.35 TB/s.
      {"h100-sxm",
       {.fp32 = 66.9e12, .tf32 = 494.7e12, .fp16 = 989.4e12, .bf16 = 989.4e12, .fp8 = 1978.9e12},
       gib(80),
       3350e9,
       kPcie5},
      // The H100 of Meta's Grand Teton, as torchtitan's benchmarks describe it: 96 GB of HBM2e at 2.4 TB/s, with a
      // power limit of 500 W. Its rates are those of the H100; the effect of the limit is not part of the peak.
      {"h100-96gb-hbm2e",
       {.fp32 = 66.9e12, .tf32 = 494.7e12, .fp16 = 989.4e12, .bf16 = 989.4e12, .fp8 = 1978.9e12},
       gib(96),
       2400e9,
       kPcie5},
      // H200 data sheet, SXM: the rates of the H100; 141 GB at 4.8 TB/s.
      {"h200-sxm",
       {.fp32 = 66.9e12, .tf32 = 494.7e12, .fp16 = 989.4e12, .bf16 = 989.4e12, .fp8 = 1978.9e12},
       gib(141),
       4800e9,
       kPcie5},
      // DGX B200 and HGX B200 data sheets, an eighth of the system, dense: 75 fp32, 1125 tf32, 2250
      // fp16 and bf16, 4500 fp8 TFLOPS; 1440 GB at 64 TB/s.
      {"b200-sxm",
       {.fp32 = 75e12, .tf32 = 1125e12, .fp16 = 2250e12, .bf16 = 2250e12, .fp8 = 4500e12},
       gib(180),
       8000e9,
       kPcie5},
      // GA102 white paper, GeForce RTX 3090, fp32 accumulation: 35.6 fp32 and tf32, 71 fp16 and
      // bf16 TFLOPS; 24 GB at 936 GB/s.
      {"rtx-3090",
       {.fp32 = 35.6e12, .tf32 = 35.6e12, .fp16 = 71e12, .bf16 = 71e12},
       gib(24),
       936e9,
       kPcie4},
      // Ada white paper, GeForce RTX 4090, fp32 accumulation: 82.6 fp32 and tf32, 165.2 fp16 and
      // bf16, 330.3 fp8 TFLOPS; 24 GB at 1008 GB/s.
      {"rtx-4090",
       {.fp32 = 82.6e12, .tf32 = 82.6e12, .fp16 = 165.2e12, .bf16 = 165.2e12, .fp8 = 330.3e12},
       gib(24),
       1008e9,
       kPcie4},
      // Jouppi et al., "TPU v4", ISCA 2023: a v3 chip of two cores has 123 bf16 TFLOPS and 32 GiB at 900 GB/s, a v4
      // chip 275 TFLOPS and 32 GiB at 1200 GB/s. The matrix unit multiplies only bf16; an fp32 product takes six
      // passes, hence a sixth of the rate.
      {"tpu-v3-core", {.fp32 = 10.25e12, .bf16 = 61.5e12}, gib(16), 450e9, kPcie3},
      {"tpu-v4", {.fp32 = 45.8e12, .bf16 = 275e12}, gib(32), 1200e9, kPcie3},
      // One core of a server: AVX2 with two units of eight lanes at about 3 GHz, of which half is reached; bf16 and
      // fp16 are converted first. `local:N` sets its memory.
      {"cpu-core",
       {.fp32 = 0.05e12, .fp16 = 0.005e12, .bf16 = 0.005e12},
       gib(4),
       10e9,
       {"memory", 10e9, 1e-6}},
  };
}

}  // namespace

std::span<const DeviceType> KnownDevices() {
  static const std::vector<DeviceType> table = DeviceTable();
  return table;
}

const DeviceType* FindKnownDevice(std::string_view name) {
  const std::span<const DeviceType> table = KnownDevices();
  const auto at = std::find_if(table.begin(), table.end(),
                               [&](const DeviceType& type) { return type.name == name; });
  return at == table.end() ? nullptr : &*at;
}

}  // namespace heddle
