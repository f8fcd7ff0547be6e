#include "runtime/kernels/fused.h"

namespace heddle {

std::optional<at::Tensor> FusedRowLosses(const at::Tensor&, const at::Tensor&, int64_t) {
  return std::nullopt;
}
std::optional<at::Tensor> AlignedProduct(const at::Tensor&, const at::Tensor&, bool) {
  return std::nullopt;
}

}  // namespace heddle
