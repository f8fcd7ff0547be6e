// What the evaluators of single ops and of graphs in shards share.
#pragma once

#include <ATen/ATen.h>

#include <span>
#include <string_view>
#include <vector>

#include "runtime/kernels/kernel.h"

namespace heddle::sharded {

bool IsIn(const std::vector<int>& set, size_t item);

// One kernel on these blocks; checks that its results have the shapes that the rule says.
std::vector<at::Tensor> Run(std::string_view op, const Attributes& attributes, const Rule& rule,
                            std::span<const Block> blocks, std::span<const at::Tensor> operands);

// Operands as leaves of a new autograd graph.
std::vector<at::Tensor> Leaves(const Rule& rule, std::span<const at::Tensor> operands);

}  // namespace heddle::sharded
