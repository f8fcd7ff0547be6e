// The software that published runs were trained with.
//
// A stack is known by its name: the cost model says under that name how fast its kernels and collectives are. Here
// stands what of it shows in the plan. One table says which source used which stack.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "validate/published_runs.h"

namespace heddle {

// In which type gradients of parameters are kept and reduced.
enum class GradientType : uint8_t { kF32, kAsCompute, kF32UnlessF16 };

struct Stack {
  std::string_view name;
  GradientType gradients = GradientType::kF32;
  // Gradients reduced together. kAllGradients: all of a stage's, and so not before the last of them is there.
  int64_t bucket_bytes = 0;
  // What a run that does not speak of it has: attention as separate kernels, and dropout of 0.1 after attention
  // probabilities, attention and MLP.
  bool unfused_attention = false;
  bool dropout = false;
};
constexpr int64_t kAllGradients = int64_t{1} << 50;

std::span<const Stack> Stacks();

// By the run's source and what the run says of itself; "unknown" for a source that is not in the table.
const Stack& StackOf(const PublishedRun& run);

}  // namespace heddle
