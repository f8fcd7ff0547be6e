// Precisions by name, and the model computed in another float type.
#pragma once

#include <array>
#include <string_view>

#include "plan/model.h"
#include "plan/plan.h"

namespace heddle {

// What a plan may compute in.
struct NamedPrecision {
  std::string_view name;
  DType compute = DType::kF32;
  Products products = Products::kAsCompute;
};
constexpr std::array<NamedPrecision, 4> kPrecisions = {
    {{"f32", DType::kF32, Products::kAsCompute},
     {"bf16", DType::kBF16, Products::kAsCompute},
     {"f16", DType::kF16, Products::kAsCompute},
     {"fp8", DType::kBF16, Products::kFp8}}};

// The name of what it computes in; for products in fp8 "fp8", whatever the rest is computed in.
std::string_view PrecisionName(DType compute, Products products);

// The rate of matrix products on a device, FLOP per second; 0 where it has none for that type.
double PeakRate(const Rates& peak, DType compute, Products products);

// What `--precision auto` means: bf16 where every device of the cluster multiplies that faster than f32; else f16, with
// the loss scaled, where every device is faster at it (V100 and P100 have no bf16); else f32.
NamedPrecision FastestPrecision(const Cluster& cluster);

// Every fp32 value as `compute` (bf16, f16), casts to fp32 too; losses stay fp32, as their rules have it. Nodes and
// values keep their ids. Throws InputError where an op cannot take that type.
Model WithComputeType(Model model, DType compute);

}  // namespace heddle
