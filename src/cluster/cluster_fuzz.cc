// Any text either is refused with an InputError of one line that begins with the file and a line number, or gives a
// sound cluster that is written and read back as an equal cluster.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "cluster/picture.h"
#include "cluster/topology.h"
#include "cluster/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heddle;
  Cluster cluster;
  try {
    cluster = ClusterFromYaml({reinterpret_cast<const char*>(data), size}, "f.yaml");
  } catch (const InputError& error) {
    const std::string_view message = error.what();
    HEDDLE_CHECK(message.starts_with("f.yaml:"), "{}", message);
    HEDDLE_CHECK(message.size() > 7 && message[7] >= '1' && message[7] <= '9', "{}", message);
    HEDDLE_CHECK(message.find('\n') == message.npos);
    return 0;
  }
  HEDDLE_CHECK(Verify(cluster).empty());
  const std::string text = ToYaml(cluster);
  HEDDLE_CHECK(ClusterFromYaml(text, "again") == cluster, "{}", text);
  HEDDLE_CHECK(ClusterFromYaml(ToJson(cluster).dump(), "json") == cluster, "{}", text);
  HEDDLE_CHECK(!DrawCluster(cluster).empty());
  const std::int64_t devices = DeviceCount(cluster);
  const DeviceId last{static_cast<std::int32_t>(devices - 1)};
  HEDDLE_CHECK(NodeOf(cluster, last).count >= 1);
  if (devices > 1) {
    const Path path = PathBetween(cluster, DeviceId{0}, last);
    HEDDLE_CHECK(path.hops >= 1 && path.bandwidth > 0 && path.latency >= 0);
  }
  return 0;
}
