// Random applications of every op, for the tests that prove rules by kernels.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace heddle {

// How the elements of an operand are drawn.
enum class Fill : uint8_t {
  kNormal,
  kPositive,     // in [0.5, 2]
  kUnit,         // in (-0.9, 0.9)
  kDistinct,     // no two alike, so that maxima are unique
  kIndex,        // integers in [0, bound)
  kSignedIndex,  // integers in [-bound, bound)
  kUnique,       // distinct integers in [0, bound) along dimension 0, then broadcast
  kLabel,        // integers in [0, bound), some -100 (ignored)
  kBool,
};

struct OperandSample {
  TensorType type;
  Fill fill = Fill::kNormal;
  int64_t bound = 0;
};

struct OpSample {
  Attributes attributes;
  std::vector<OperandSample> operands;
};

using SampleRng = std::mt19937_64;

struct OpSampler {
  std::string_view op;
  OpSample (*draw)(SampleRng&);
};

// At least one per op; several where attributes matter.
std::span<const OpSampler> AllSamplers();

}  // namespace heddle
