// The kernels of a node's halves on one device, with their work. compute.h gives their time on a device. Everything
// follows from the op's rule and the device's blocks.
//
//   Linear [2048,12288] x [12288,1536]   F: one product m=2048 n=1536 k=12288
//                                        B: one product m=2048 n=12288 k=1536    W: m=12288 n=1536 k=2048
//   Gelu [2048,6144]                     F: 50 MB of traffic in bf16
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/analysis.h"
#include "plan/plan.h"

namespace heddle {

enum class KernelKind : uint8_t { kProduct, kAttention, kTraffic };

struct Kernel {
  KernelKind kind = KernelKind::kTraffic;
  DType dtype = DType::kF32;    // the type of the computation
  bool with_parameter = false;  // a product with a parameter, which a plan may multiply in fp8
  double flops = 0;             // of a product or attention
  double bytes = 0;             // bytes read and written
  // A product has b independent products of m x n x k each. Attention has m queries by n keys by the width k of a head.
  double b = 1, m = 1, n = 1, k = 1;
  // The keys by which measured times are found (cluster/measured_times.h): the op, the bytes that the half moves, and
  // the half.
  std::string_view op = {};
  double moved = 0;
  bool backward = false;
  bool causal = false;
  bool operator==(const Kernel&) const = default;
};

struct NodeKernels {
  std::vector<Kernel> forward, backward, weight;
};

// The kernels of a node's halves for the part given by `blocks`. A view has none. The element types come from the
// graph, which must outlive the kernels. Gradients of parameters are accumulated in `gradients`.
NodeKernels KernelsOf(const Graph& graph, const GradientFlow& flow, const Node& node,
                      const Rule& rule, std::span<const Block> blocks, DType gradients);

// The gradient of one operand, a weight, from its factors (ops/gradient_factors.h), for the part given by `blocks`.
Kernel FactorKernel(const Graph& graph, const GradientFlow& flow, const Node& node,
                    const Rule& rule, std::span<const Block> blocks, DType gradients,
                    size_t operand);

// Whether the operand is the bias of a matrix product. Its gradient, a sum over rows, is a kernel besides the products.
bool IsProductBias(const Node& node, size_t operand);

// The scratch memory of the halves (Rule::scratch), in bytes.
double ScratchBytes(const Rule& rule, std::span<const Block> blocks);

// The bytes that are read of operand `o`.
double OperandBytes(const Graph& graph, const Node& node, const Rule& rule,
                    std::span<const Block> blocks, size_t o);

}  // namespace heddle
