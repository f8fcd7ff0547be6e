#include "runtime/devices.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "cluster/load.h"
#include "cluster/yaml.h"
#include "runtime/accelerator.h"
#include "runtime/transport/nccl.h"

namespace heddle {
namespace {

// A known device, and two words that both occur in the name that the driver gives it. The first entry that fits counts.
struct KnownDevice {
  std::string_view word, more, device;
};
constexpr std::array<KnownDevice, 11> kKinds = {{{"H200", "", "h200-sxm"},
                                                 {"H100", "", "h100-sxm"},
                                                 {"B200", "", "b200-sxm"},
                                                 {"A100", "80GB", "a100-sxm-80gb"},
                                                 {"A100", "40GB", "a100-sxm-40gb"},
                                                 {"V100", "32GB", "v100-sxm2-32gb"},
                                                 {"V100", "16GB", "v100-sxm2-16gb"},
                                                 {"P100", "12GB", "p100-pcie-12gb"},
                                                 {"RTX 4090", "", "rtx-4090"},
                                                 {"RTX 3090", "", "rtx-3090"},
                                                 {"GTX 1080 Ti", "", "gtx-1080ti"}}};

std::optional<Cluster> GpusLike(const std::string& name, int64_t ranks) {
  for (const KnownDevice& kind : kKinds) {
    if (name.find(kind.word) == std::string::npos || name.find(kind.more) == std::string::npos)
      continue;
    std::string link = "{name: pcie, bandwidth: 25 GB/s, latency: 10 us}";
    return ClusterFromYaml(
        fmt::format("link: {}\nnodes:\n  - {{name: here, device: {}, devices: {}, link: {}}}\n",
                    link, kind.device, ranks, link),
        name);
  }
  return std::nullopt;
}

}  // namespace

Cluster ClusterHere(const std::string& device, int64_t ranks) {
  if (std::string name = DescribeDevice(device); !name.empty()) {
    if (std::optional<Cluster> gpus = GpusLike(name, ranks)) return *gpus;
    LogInfo("{} is no device heddle knows: what is predicted is for cores", name);
  }
  return LoadCluster(fmt::format("local:{}", ranks));
}

std::string DescribeDevice(const std::string& device) {
  at::Device chosen = ChooseDevice(device, 0);
  return chosen.is_cpu() ? "" : CudaDeviceName(chosen.index());
}

void RequireNccl(const std::string& device) {
  if (ChooseDevice(device, 0).is_cpu())
    ThrowInput("--transport nccl is for ranks on GPUs: add --device cuda");
  if (!HasNccl())
    ThrowInput("--transport nccl: this heddle was built without NCCL; use --transport mpi");
}

}  // namespace heddle
