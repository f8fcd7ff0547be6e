#include "cluster/select.h"

#include <gtest/gtest.h>

#include "cluster/load.h"
#include "cluster/topology.h"
#include "cluster/yaml.h"

namespace heddle {
namespace {

TEST(Select, WholeIsTheSame) {
  for (const char* name : {"dgx-h100:4", "tpu-v4:64", "local:3"}) {
    Cluster cluster = LoadCluster(name);
    std::vector<int64_t> all;
    for (int64_t d = 0; d < DeviceCount(cluster); ++d) all.push_back(d);
    EXPECT_EQ(Select(cluster, all), cluster) << name;
  }
}

TEST(Select, KeepsLinksAndTypes) {
  Cluster cluster = ClusterFromYaml(
      "device_types:\n"
      "  - {name: fast, memory: 32 GiB, memory_bandwidth: 800 GB/s, fp32: 40 TFLOP/s}\n"
      "  - {name: slow, memory: 16 GiB, memory_bandwidth: 200 GB/s, fp32: 10 TFLOP/s}\n"
      "link: {name: wide, bandwidth: 5 GB/s, latency: 9 us}\n"
      "nodes:\n"
      "  - {name: a, count: 2, device: fast, devices: 4, link: {name: in, bandwidth: 8 GB/s, "
      "latency: 1 us}}\n"
      "  - {name: b, count: 2, device: slow, devices: 2, link: {name: in, bandwidth: 8 GB/s, "
      "latency: 1 us}}\n",
      "mixed");
  Cluster part = Select(cluster, {0, 1, 4, 5, 6, 7, 10, 11});
  EXPECT_EQ(Verify(part), std::vector<std::string>());
  ASSERT_EQ(DeviceCount(part), 8);
  EXPECT_EQ(NodesOf(part).size(), 3u);
  EXPECT_EQ(part.type(TypeOf(part, DeviceId{5})).name, "fast");
  EXPECT_EQ(part.type(TypeOf(part, DeviceId{6})).name, "slow");
  EXPECT_EQ(PathBetween(part, DeviceId{0}, DeviceId{1}).bandwidth, 8e9);
  EXPECT_EQ(PathBetween(part, DeviceId{0}, DeviceId{7}).bandwidth, 5e9);
  Cluster one = Select(cluster, {9});
  EXPECT_EQ(Verify(one), std::vector<std::string>());
  EXPECT_EQ(one.device_types.size(), 1u);
}

}  // namespace
}  // namespace heddle
