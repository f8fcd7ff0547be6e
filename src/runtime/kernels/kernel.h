// Kernels: one entry per op, a few ATen calls on local shards. Autograd gives the gradients.
//
// A kernel sees the rule at the global shape and the block of every factor this rank holds; its operands
// are the local parts the rule says (LocalShape of each operand), and it returns the local parts of the
// results: complete where the result has the split factors, terms of a sum (or maximum) where it lacks a
// summed (maxed) one. Operands added once to such a sum (a bias) are added by the block that begins at 0.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/rule.h"

namespace heddle {

// Random numbers are a pure function of these and the global position of an element.
struct RandomState {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t node = 0;
};

struct KernelCall {
  const Attributes& attributes;
  const Rule& rule;
  std::span<const Block> blocks;  // one per factor of the rule
  std::span<const at::Tensor> operands;
  RandomState random;

  Shape LocalResultShape(size_t result = 0) const {
    return LocalShape(rule, rule.results[result], blocks);
  }
};

using KernelFn = std::vector<at::Tensor> (*)(const KernelCall&);

struct KernelDef {
  std::string_view op;
  KernelFn run;
};

// Every kernel in a fixed order; null where an op has none.
std::span<const KernelDef> AllKernels();
KernelFn FindKernel(std::string_view op);

at::ScalarType ToTorch(DType dtype);

}  // namespace heddle
