#include "runtime/kernels/op_samples.h"

#include "runtime/kernels/op_sample_draw.h"

namespace heddle {

std::span<const OpSampler> AllSamplers() {
  static const std::vector<OpSampler> samplers = [] {
    std::vector<OpSampler> all = samples::NumericSamplers();
    for (const OpSampler& sampler : samples::StructuralSamplers()) all.push_back(sampler);
    return all;
  }();
  return samplers;
}

}  // namespace heddle
