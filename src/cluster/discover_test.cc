#include "cluster/discover.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/error.h"
#include "cluster/quota.h"
#include "cluster/topology.h"
#include "cluster/yaml.h"

namespace heddle {
namespace {

int Fine() { return 0; }
int Broken() { return 9; }

// The answers of NVML on a machine with two H200 with 18 links each.
NvmlFunctions FakeNvml() {
  NvmlFunctions nvml;
  nvml.init = nvml.shutdown = Fine;
  nvml.count = [](unsigned* count) { return *count = 2, 0; };
  nvml.handle = [](unsigned, NvmlFunctions::Device* device) { return *device = nullptr, 0; };
  nvml.name = [](NvmlFunctions::Device, char* name, unsigned length) {
    std::snprintf(name, length, "NVIDIA H200");
    return 0;
  };
  nvml.memory = [](NvmlFunctions::Device, NvmlFunctions::Memory* memory) {
    return memory->total = 150ull << 30, 0;
  };
  nvml.generation = [](NvmlFunctions::Device, unsigned* value) { return *value = 5, 0; };
  nvml.width = [](NvmlFunctions::Device, unsigned* value) { return *value = 16, 0; };
  nvml.nvlink = [](NvmlFunctions::Device, unsigned, int* active) { return *active = 1, 0; };
  return nvml;
}

const Processor kProcessor{"AMD EPYC  7B13 64-Core", 8, int64_t{64} << 30};

TEST(NvmlTest, ReadsGpus) {
  FoundGpus found = ReadGpus(FakeNvml());
  ASSERT_EQ(found.gpus.size(), 2u);
  EXPECT_EQ(found.gpus[1], (GpuInfo{"NVIDIA H200", int64_t{150} << 30, 0, 0, 5, 16, 18}));
  EXPECT_EQ(found.remark, "");
}

TEST(NvmlTest, SaysWhyThereAreNone) {
  NvmlFunctions nvml = FakeNvml();
  nvml.init = Broken;
  EXPECT_EQ(ReadGpus(nvml).remark, "NVML cannot be started (error 9)");
  nvml = FakeNvml();
  nvml.count = [](unsigned* count) { return *count = 0, 0; };
  EXPECT_EQ(ReadGpus(nvml).remark, "NVML finds no GPU");
  nvml = FakeNvml();
  nvml.memory = [](NvmlFunctions::Device, NvmlFunctions::Memory*) { return 3; };
  EXPECT_EQ(ReadGpus(nvml).remark, "NVML cannot read GPU 1 of 2");
}

TEST(DiscoverTest, GpusAreDevicesOfANode) {
  Discovery found = ClusterOf(kProcessor, 0, ReadGpus(FakeNvml()), 0);
  EXPECT_TRUE(Verify(found.cluster).empty());
  EXPECT_EQ(DeviceCount(found.cluster), 2);
  EXPECT_EQ(found.cluster.device_types[0].name, "h200-sxm");
  EXPECT_EQ(found.cluster.groups[0].link.bandwidth, 18 * 25e9);
  EXPECT_EQ(ClusterFromYaml(ToYaml(found.cluster), "it"), found.cluster);
}

TEST(DiscoverTest, AnUnknownGpuNeedsItsClock) {
  NvmlFunctions nvml = FakeNvml();
  nvml.name = [](NvmlFunctions::Device, char* name, unsigned length) {
    std::snprintf(name, length, "Voodoo 2");
    return 0;
  };
  EXPECT_THROW(ClusterOf(kProcessor, 0, ReadGpus(nvml), 0), InputError);
  nvml.cores = [](NvmlFunctions::Device, unsigned* value) { return *value = 1000, 0; };
  nvml.clock = [](NvmlFunctions::Device, int, unsigned* value) { return *value = 2000, 0; };
  Discovery found = ClusterOf(kProcessor, 0, ReadGpus(nvml), 1);
  EXPECT_EQ(DeviceCount(found.cluster), 1);
  EXPECT_EQ(found.cluster.device_types[0].name, "voodoo-2");
  EXPECT_EQ(found.cluster.device_types[0].peak.fp32, 4e12);
}

TEST(DiscoverTest, RanksShareTheProcessor) {
  Discovery found = ClusterOf(kProcessor, 80e9, {}, 4);
  EXPECT_TRUE(Verify(found.cluster).empty());
  EXPECT_EQ(DeviceCount(found.cluster), 4);
  const DeviceType& type = found.cluster.device_types[0];
  EXPECT_EQ(type.name, "cpu-amd-epyc-7b13-64-core");
  EXPECT_EQ(type.memory, kGiB * 16);
  EXPECT_EQ(type.memory_bandwidth, 20e9);
  EXPECT_EQ(ClusterFromYaml(ToYaml(found.cluster), "it"), found.cluster);
  EXPECT_THROW(ClusterOf(kProcessor, 80e9, {}, 9), InputError);
}

TEST(DiscoverTest, ThisMachineIsACluster) {
  Discovery found = Discover(1);
  EXPECT_TRUE(Verify(found.cluster).empty());
  EXPECT_EQ(DeviceCount(found.cluster), 1);
}

TEST(MachineTest, TheProcessorsNameIsCleaned) {
  EXPECT_EQ(ProcessorName("x : y\nmodel name\t:  A\tB \nmodel name : C"), "A B");
  EXPECT_EQ(ProcessorName("nothing"), "unknown");
  EXPECT_EQ(ProcessorName("model name"), "unknown");
  EXPECT_EQ(ProcessorName("model name :\n"), "unknown");
}

TEST(MachineTest, QuotasAreThoseOfAllGroupsAProcessIsIn) {
  using Files = std::vector<std::string>;
  EXPECT_EQ(
      QuotaFiles("4:memory:/m\n3:cpu,cpuacct:/a/b\n"),
      (Files{"/sys/fs/cgroup/cpu/a/b/cpu.stat", "/sys/fs/cgroup/cpu/a/cpu.stat",
             "/sys/fs/cgroup/cpu/cpu.stat", "/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.stat",
             "/sys/fs/cgroup/cpu,cpuacct/a/cpu.stat", "/sys/fs/cgroup/cpu,cpuacct/cpu.stat"}));
  EXPECT_EQ(QuotaFiles("0::/"),
            (Files{"/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/unified/cpu.stat"}));
  EXPECT_EQ(QuotaFiles("3:cpuset:/a\nnothing\n::\n:"),
            (Files{"/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/unified/cpu.stat"}));
}

}  // namespace
}  // namespace heddle
