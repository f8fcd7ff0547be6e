#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cpu_features.h"
#include "runtime/kernels/kernel_util.h"

namespace heddle {
namespace {

constexpr std::vector<KernelDef> (*kFamilies[])() = {
    ElementwiseKernels, ContractionKernels, WindowKernels,    NormalisationKernels,
    MovementKernels,    IndexingKernels,    ReductionKernels, RandomKernels,
};

std::vector<KernelDef> Gather() {
  AvoidTileRegisters();
  std::vector<KernelDef> all;
  for (auto family : kFamilies) std::ranges::copy(family(), std::back_inserter(all));
  return all;
}

std::vector<KernelDef> Sorted() {
  std::vector<KernelDef> all(AllKernels().begin(), AllKernels().end());
  std::ranges::sort(all, {}, &KernelDef::op);
  const auto twice = std::ranges::adjacent_find(all, {}, &KernelDef::op);
  HEDDLE_CHECK(twice == all.end(), "two kernels of {}", twice->op);
  return all;
}

}  // namespace

std::span<const KernelDef> AllKernels() {
  static const std::vector<KernelDef> all = Gather();
  return all;
}

KernelFn FindKernel(std::string_view op) {
  static const std::vector<KernelDef> sorted = Sorted();
  const auto found = std::ranges::lower_bound(sorted, op, {}, &KernelDef::op);
  return found != sorted.end() && found->op == op ? found->run : nullptr;
}

at::ScalarType ToTorch(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return at::kFloat;
    case DType::kF64:
      return at::kDouble;
    case DType::kF16:
      return at::kHalf;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kI64:
      return at::kLong;
    case DType::kI32:
      return at::kInt;
    case DType::kI16:
      return at::kShort;
    case DType::kI8:
      return at::kChar;
    case DType::kU8:
      return at::kByte;
    case DType::kBool:
      return at::kBool;
  }
  HEDDLE_CHECK(false, "dtype {}", static_cast<int>(dtype));
  return at::kFloat;
}

}  // namespace heddle
