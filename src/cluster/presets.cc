// The table of presets. Bandwidths are the vendors' figures for one direction; network figures in Gb/s are divided by 8
// for GB/s. Latencies are nominal: the time of a small message from device to device.
#include "cluster/presets.h"

namespace heddle {
namespace {

constexpr double kGbit = 1e9 / 8;

Link Infiniband(double gbit_per_second) { return {"infiniband", gbit_per_second * kGbit, 5e-6}; }
Link Ethernet(double gbit_per_second) { return {"ethernet", gbit_per_second * kGbit, 30e-6}; }
Link Efa(double gbit_per_second) { return {"efa", gbit_per_second * kGbit, 15e-6}; }

std::vector<Preset> PresetTable() {
  const auto gib = [](std::int64_t count) { return kGiB * count; };
  std::vector<Preset> table;

  // DGX-1 with V100: NVLink 2, six links of 25 GB/s a device. They form a hybrid cube mesh, over which collectives
  // reach the bandwidth of a switch; two single devices share only one or two links. Four EDR cards of 100 Gb/s; 512
  // GB.
  const Link nvlink2 = {"nvlink2", 150e9, 3e-6};
  table.push_back({.name = "dgx-v100",
                   .summary = "NVIDIA DGX-1, 8 x V100 32 GB, 4 x EDR",
                   .device = "v100-sxm2-32gb",
                   .devices = 8,
                   .link = nvlink2,
                   .network = Infiniband(100),
                   .uplink = {.bandwidth = 400 * kGbit, .per_device = 100 * kGbit},
                   .host_memory = gib(512)});

  // DGX A100 (640 GB): NVSwitch, 600 GB/s a device in both directions together; eight HDR cards of
  // 200 Gb/s; 2 TB. The 320 GB system has 1 TB.
  const Link nvlink3 = {"nvlink3", 300e9, 3e-6};
  table.push_back({.name = "dgx-a100",
                   .summary = "NVIDIA DGX A100, 8 x A100 80 GB, 8 x HDR",
                   .device = "a100-sxm-80gb",
                   .devices = 8,
                   .link = nvlink3,
                   .network = Infiniband(200),
                   .uplink = {.bandwidth = 1600 * kGbit, .per_device = 200 * kGbit},
                   .host_memory = gib(2048)});
  table.push_back({.name = "dgx-a100-40gb",
                   .summary = "NVIDIA DGX A100, 8 x A100 40 GB, 8 x HDR",
                   .device = "a100-sxm-40gb",
                   .devices = 8,
                   .link = nvlink3,
                   .network = Infiniband(200),
                   .uplink = {.bandwidth = 1600 * kGbit, .per_device = 200 * kGbit},
                   .host_memory = gib(1024)});

  // DGX H100, DGX H200: NVSwitch, 900 GB/s a device in both directions; eight NDR cards of 400
  // Gb/s; 2 TB.
  const Link nvlink4 = {"nvlink4", 450e9, 3e-6};
  table.push_back({.name = "dgx-h100",
                   .summary = "NVIDIA DGX H100, 8 x H100 80 GB, 8 x NDR",
                   .device = "h100-sxm",
                   .devices = 8,
                   .link = nvlink4,
                   .network = Infiniband(400),
                   .uplink = {.bandwidth = 3200 * kGbit, .per_device = 400 * kGbit},
                   .host_memory = gib(2048)});
  table.push_back({.name = "dgx-h200",
                   .summary = "NVIDIA DGX H200, 8 x H200 141 GB, 8 x NDR",
                   .device = "h200-sxm",
                   .devices = 8,
                   .link = nvlink4,
                   .network = Infiniband(400),
                   .uplink = {.bandwidth = 3200 * kGbit, .per_device = 400 * kGbit},
                   .host_memory = gib(2048)});

  // DGX B200: NVLink 5, 1.8 TB/s a device in both directions; eight cards of 400 Gb/s; 2 TB.
  table.push_back({.name = "dgx-b200",
                   .summary = "NVIDIA DGX B200, 8 x B200 180 GB, 8 x NDR",
                   .device = "b200-sxm",
                   .devices = 8,
                   .link = {"nvlink5", 900e9, 3e-6},
                   .network = Infiniband(400),
                   .uplink = {.bandwidth = 3200 * kGbit, .per_device = 400 * kGbit},
                   .host_memory = gib(2048)});

  // Summit (OLCF user guide): two sockets of three V100; within a socket every pair has two NVLink
  // 2 bricks, 50 GB/s; X-Bus between sockets 64 GB/s; two EDR rails of 100 Gb/s; 512 GB.
  table.push_back({.name = "summit",
                   .summary = "Summit, 6 x V100 16 GB in 2 sockets, 2 x EDR",
                   .device = "v100-power9-16gb",
                   .devices = 6,
                   .parts = 2,
                   .topology = Topology::kMesh,
                   .link = {"nvlink2", 50e9, 3e-6},
                   .part_link = {"x-bus", 64e9, 5e-6},
                   .network = Infiniband(100),
                   .uplink = {.bandwidth = 200 * kGbit, .per_device = 100 * kGbit},
                   .host_memory = gib(512)});

  // AWS EC2: p3.16xlarge 25 Gb/s and 488 GiB, p3dn.24xlarge 100 Gb/s and 768 GiB, p4d.24xlarge 400
  // Gb/s (four cards of 100) and 1152 GiB, p5.48xlarge 3200 Gb/s and 2048 GiB.
  table.push_back({.name = "p3",
                   .summary = "AWS p3.16xlarge, 8 x V100 16 GB, 25 Gb/s",
                   .device = "v100-sxm2-16gb",
                   .devices = 8,
                   .link = nvlink2,
                   .network = Ethernet(25),
                   .uplink = {.bandwidth = 25 * kGbit},
                   .host_memory = gib(488)});
  table.push_back({.name = "p3dn",
                   .summary = "AWS p3dn.24xlarge, 8 x V100 32 GB, 100 Gb/s",
                   .device = "v100-sxm2-32gb",
                   .devices = 8,
                   .link = nvlink2,
                   .network = Efa(100),
                   .uplink = {.bandwidth = 100 * kGbit},
                   .host_memory = gib(768)});
  table.push_back({.name = "p4d",
                   .summary = "AWS p4d.24xlarge, 8 x A100 40 GB, 400 Gb/s EFA",
                   .device = "a100-sxm-40gb",
                   .devices = 8,
                   .link = nvlink3,
                   .network = Efa(100),
                   .uplink = {.bandwidth = 400 * kGbit, .per_device = 100 * kGbit},
                   .host_memory = gib(1152)});
  table.push_back({.name = "p5",
                   .summary = "AWS p5.48xlarge, 8 x H100 80 GB, 3200 Gb/s EFA",
                   .device = "h100-sxm",
                   .devices = 8,
                   .link = nvlink4,
                   .network = Efa(400),
                   .uplink = {.bandwidth = 3200 * kGbit, .per_device = 400 * kGbit},
                   .host_memory = gib(2048)});

  // TPU pods (Jouppi et al., ISCA 2023). v3 is a 2-D torus of up to 32 x 32 chips with four links of 70 GB/s; its
  // devices are cores, two a chip. The bandwidth between the two cores is not published: that of their memory is used.
  // v4 is a 3-D torus of up to 4096 chips with six links of 50 GB/s; its devices are chips. Real slices below 4x4x4
  // have no wrap-around links, but the model has them. Hosts (Google Cloud) have four chips and 340 GB (v3) or 407 GB
  // (v4).
  table.push_back({.name = "tpu-v3",
                   .summary = "Google TPU v3 slice, 2-D torus of chips, 2 cores each",
                   .device = "tpu-v3-core",
                   .devices = 2,
                   .link = {"on-chip", 450e9, 1e-6},
                   .network = {"ici", 70e9, 1e-6},
                   .host_memory = gib(340),
                   .torus_dims = 2,
                   .chips_per_host = 4,
                   .max_chips = 1024});
  table.push_back({.name = "tpu-v4",
                   .summary = "Google TPU v4 slice, 3-D torus of chips",
                   .device = "tpu-v4",
                   .network = {"ici", 50e9, 1e-6},
                   .host_memory = gib(407),
                   .torus_dims = 3,
                   .chips_per_host = 4,
                   .max_chips = 4096});

  // The testbed of TAG (Zhang et al., 2023) as its released scripts describe it: measured 8 GB/s between the V100s of a
  // machine, 3 GB/s between 1080 Tis and between P100s, 2.81 GB/s between machines. Latencies are those of its
  // simulator.
  const Link testbed = {"ethernet", 2.81e9, 12e-6};
  table.push_back({.name = "v100x4",
                   .summary = "TAG testbed, 4 x V100 32 GB",
                   .device = "v100-pcie-32gb",
                   .devices = 4,
                   .link = {"pcie3", 8e9, 12e-6},
                   .network = testbed,
                   .uplink = {.bandwidth = 2.81e9},
                   .host_memory = gib(256)});
  table.push_back({.name = "1080tix2",
                   .summary = "TAG testbed, 2 x GTX 1080 Ti",
                   .device = "gtx-1080ti",
                   .devices = 2,
                   .link = {"pcie3-shared", 3e9, 12e-6},
                   .network = testbed,
                   .uplink = {.bandwidth = 2.81e9},
                   .host_memory = gib(64)});
  table.push_back({.name = "p100x2",
                   .summary = "TAG testbed, 2 x P100 12 GB",
                   .device = "p100-pcie-12gb",
                   .devices = 2,
                   .link = {"pcie3-shared", 3e9, 12e-6},
                   .network = testbed,
                   .uplink = {.bandwidth = 2.81e9},
                   .host_memory = gib(64)});

  // Desktop cards in one box: devices communicate over PCIe 4 through the host; 10 GbE.
  const Link pcie4 = {"pcie4", 31.5e9, 10e-6};
  table.push_back({.name = "rtx3090",
                   .summary = "a box of 4 x GeForce RTX 3090, 10 GbE",
                   .device = "rtx-3090",
                   .devices = 4,
                   .link = pcie4,
                   .network = Ethernet(10),
                   .uplink = {.bandwidth = 10 * kGbit},
                   .host_memory = gib(128)});
  table.push_back({.name = "rtx4090",
                   .summary = "a box of 4 x GeForce RTX 4090, 10 GbE",
                   .device = "rtx-4090",
                   .devices = 4,
                   .link = pcie4,
                   .network = Ethernet(10),
                   .uplink = {.bandwidth = 10 * kGbit},
                   .host_memory = gib(128)});

  // This machine: ranks that share its memory. Figures are nominal until they are measured.
  table.push_back({.name = "local",
                   .summary = "this machine, N CPU ranks (nominal figures)",
                   .device = "cpu-core",
                   .link = {"shared-memory", 5e9, 5e-6},
                   .local = true});
  return table;
}

}  // namespace

std::span<const Preset> Presets() {
  static const std::vector<Preset> table = PresetTable();
  return table;
}

std::vector<std::string_view> PresetNames() {
  std::vector<std::string_view> names;
  for (const Preset& preset : Presets()) names.push_back(preset.name);
  return names;
}

}  // namespace heddle
