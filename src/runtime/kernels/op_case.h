// A random application of an op, its operands drawn, and what one device makes of it.
#pragma once

#include <ATen/ATen.h>

#include <string_view>
#include <vector>

#include "ops/op.h"
#include "runtime/kernels/op_samples.h"
#include "runtime/kernels/sharded_eval.h"

namespace heddle {

// Elements as the sample says, in the type that stands for f32.
at::Tensor Draw(const OperandSample& sample, SampleRng& rng, DType floats);

struct OpCase {
  std::string_view op;
  Attributes attributes;
  std::vector<TensorType> types;
  Rule rule;
  std::vector<at::Tensor> operands, result_gradients;
  Evaluation whole;

  // Floats are double by default, so that only mistakes are larger than the tolerance. The same rng gives
  // the same numbers in every type and on every device.
  OpCase(const OpSampler& sampler, SampleRng rng, DType floats = DType::kF64,
         at::Device device = at::kCPU);

  Evaluation Split(const std::vector<SplitAxis>& axes) const;

  // The op's expansion with operands split along these dimensions. Gradients that an expansion knows but
  // the rule does not ask for (of a loss's count) are left out.
  Evaluation Expand(const Graph& graph, const std::vector<int>& split_dims, int64_t ranks) const;
};

// Largest difference, relative to the largest element (or 1); infinite where shapes differ or only one is
// defined.
double Difference(const at::Tensor& got, const at::Tensor& want);

}  // namespace heddle
