#include "report/kernel_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace heddle {
namespace {

struct KindOfKernel {
  std::string_view name;
  std::vector<std::string_view>
      words;  // parts of kernel names; a kernel belongs to the first kind with a match
};

const std::vector<KindOfKernel>& Kinds() {
  static const std::vector<KindOfKernel> kinds = {
      {"attention", {"flash", "fmha", "sdpa", "attention"}},
      {"matrix products", {"gemm", "nvjet", "cutlass", "cublas", "splitK", "xmma"}},
      {"normalisation", {"layer_norm", "LayerNorm", "GammaBeta", "rms_norm", "batch_norm"}},
      {"cross entropy", {"LogitRows", "softmax", "SoftMax", "nll_loss"}},
      {"optimizer", {"FusedAdam", "fused_adam"}},
      {"embedding", {"embedding", "indexSelect", "index_select", "RadixSort", "radix"}},
      {"copies", {"memcpy", "memset", "copy", "CatArray", "FillFunctor"}},
      {"sums", {"reduce_kernel", "dot_kernel", "reduce_1Block"}},
      {"elementwise", {"elementwise"}},
  };
  return kinds;
}

std::string_view KindOf(const std::string& name) {
  for (const KindOfKernel& kind : Kinds()) {
    for (std::string_view word : kind.words) {
      if (name.find(word) != std::string::npos) return kind.name;
    }
  }
  return "other";
}

std::string Short(std::string name, size_t most) {
  if (name.size() > most) name = name.substr(0, most - 3) + "...";
  return name;
}

}  // namespace

std::string KernelTable(const std::vector<KernelTime>& kernels, int64_t steps,
                        double step_seconds) {
  constexpr size_t kShown = 16, kWidth = 84;
  double each = 1e3 / static_cast<double>(steps), all = 0;
  std::map<std::string_view, KernelTime> kinds;
  for (const KernelTime& kernel : kernels) {
    KernelTime& kind = kinds[KindOf(kernel.name)];
    kind.count += kernel.count;
    kind.seconds += kernel.seconds;
    all += kernel.seconds;
  }
  std::vector<std::pair<double, std::string_view>> order;
  for (const auto& [name, time] : kinds) order.push_back({-time.seconds, name});
  std::sort(order.begin(), order.end());
  double step = 1e3 * step_seconds;
  std::string text =
      fmt::format("\n{:<24}{:>9}{:>12}{:>9}\n", "a step on the GPU", "kernels", "ms", "share");
  for (const auto& [seconds, name] : order) {
    const KernelTime& time = kinds[name];
    text += fmt::format("  {:<22}{:>9}{:>12.3f}{:>8.1f}%\n", name, time.count / steps,
                        time.seconds * each, 100 * time.seconds * each / step);
  }
  text += fmt::format("  {:<22}{:>9}{:>12.3f}{:>8.1f}%\n", "idle", "", step - all * each,
                      100 * (1 - all * each / step));
  text += fmt::format("  {:<22}{:>9}{:>12.3f}\n", "step", "", step);
  for (size_t k = 0; k < std::min(kShown, kernels.size()); ++k) {
    text += fmt::format("  {:<{}}{:>6}{:>10.3f} ms\n", Short(kernels[k].name, kWidth), kWidth,
                        kernels[k].count / steps, kernels[k].seconds * each);
  }
  return text;
}

Json KernelJson(const std::vector<KernelTime>& kernels, int64_t steps) {
  Json list = Json::array();
  for (const KernelTime& kernel : kernels) {
    list.push_back({{"name", kernel.name},
                    {"kind", KindOf(kernel.name)},
                    {"count", kernel.count / steps},
                    {"seconds", kernel.seconds / static_cast<double>(steps)}});
  }
  return list;
}

}  // namespace heddle
