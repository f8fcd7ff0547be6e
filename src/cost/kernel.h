// What the halves of a node amount to on one device: kernels with their work, before any device is asked how long
// they take (compute.h). Everything follows from the op's rule and the device's blocks.
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
  DType dtype = DType::kF32;    // of what is computed
  bool with_parameter = false;  // a product with a parameter: what a plan may multiply in fp8
  double flops = 0;             // of a product or attention
  double bytes = 0;             // read and written
  // Of a product: b independent ones, m x n x k each. Of attention: m queries by n keys by the width k of a head.
  double b = 1, m = 1, n = 1, k = 1;
  // By what measured times are found (cluster/measured_times.h): the op, what its half moves, which half.
  std::string_view op = {};
  double moved = 0;
  bool backward = false;
  bool causal = false;
  bool operator==(const Kernel&) const = default;
};

struct NodeKernels {
  std::vector<Kernel> forward, backward, weight;
};

// The kernels of a node's halves for the part given by `blocks`; a view has none. The graph gives the element types
// and must outlive them.
// Gradients of parameters are added to what is there in `gradients`.
NodeKernels KernelsOf(const Graph& graph, const GradientFlow& flow, const Node& node,
                      const Rule& rule, std::span<const Block> blocks, DType gradients);

// The gradient of one operand, a weight, from its factors (ops/gradient_factors.h), for the part given by `blocks`.
Kernel FactorKernel(const Graph& graph, const GradientFlow& flow, const Node& node,
                    const Rule& rule, std::span<const Block> blocks, DType gradients,
                    size_t operand);

// Is the operand the bias of a matrix product? Its gradient, a sum over rows, is a kernel besides those of the product.
bool IsProductBias(const Node& node, size_t operand);

// What the halves need for themselves (Rule::scratch), in bytes.
double ScratchBytes(const Rule& rule, std::span<const Block> blocks);

// What is read of operand `o`, in bytes.
double OperandBytes(const Graph& graph, const Node& node, const Rule& rule,
                    std::span<const Block> blocks, size_t o);

}  // namespace heddle
