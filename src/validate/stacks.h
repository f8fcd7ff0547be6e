// The software stacks of published runs.
//
// The cost model has the speed of a stack's kernels and collectives under its name. The fields here are those that
// change the plan. A table assigns stacks to sources.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "validate/published_runs.h"

namespace heddle {

// The type in which gradients of parameters are stored and reduced.
enum class GradientType : uint8_t { kF32, kAsCompute, kF32UnlessF16 };

struct Stack {
  std::string_view name;
  GradientType gradients = GradientType::kF32;
  // Bytes of gradients that are reduced together. kAllGradients: all of a stage, so the reduction starts after the last
  // one.
  int64_t bucket_bytes = 0;
  // Defaults for runs that do not state it: attention as separate kernels, and dropout of 0.1 after attention
  // probabilities, attention and MLP.
  bool unfused_attention = false;
  bool dropout = false;
};
constexpr int64_t kAllGradients = int64_t{1} << 50;

std::span<const Stack> Stacks();

// The stack of a run by its source, notes and sharding. It is "unknown" for a source that is not in the table.
const Stack& StackOf(const PublishedRun& run);

}  // namespace heddle
