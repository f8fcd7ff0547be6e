// Any preset expression either is refused with an InputError of one line or gives a sound cluster.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "cluster/presets.h"
#include "cluster/topology.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heddle;
  try {
    const Cluster cluster = ClusterFromPreset({reinterpret_cast<const char*>(data), size});
    HEDDLE_CHECK(Verify(cluster).empty());
    HEDDLE_CHECK(IsHomogeneous(cluster) && DeviceCount(cluster) >= 1);
  } catch (const InputError& error) {
    HEDDLE_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
