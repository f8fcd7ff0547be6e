#include "runtime/kernels/sharded_eval.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "base/check.h"
#include "ops/op.h"
#include "runtime/kernels/sharded_eval_parts.h"

namespace heddle {
namespace sharded {
namespace {

constexpr RandomState kRandom{11, 22, 33};

}  // namespace

bool IsIn(const std::vector<int>& set, size_t item) {
  return std::find(set.begin(), set.end(), static_cast<int>(item)) != set.end();
}

std::vector<at::Tensor> Run(std::string_view op, const Attributes& attributes, const Rule& rule,
                            std::span<const Block> blocks, std::span<const at::Tensor> operands) {
  KernelFn kernel = FindKernel(op);
  HEDDLE_CHECK(kernel != nullptr, "op {} has no kernel", op);
  std::vector<at::Tensor> results = kernel({attributes, rule, blocks, operands, kRandom});
  HEDDLE_CHECK_EQ(results.size(), rule.results.size());
  for (size_t r = 0; r < results.size(); ++r) {
    Shape expected = LocalShape(rule, rule.results[r], blocks);
    HEDDLE_CHECK(results[r].sizes() == at::IntArrayRef(expected),
                 "{}: result {} is {}, the rule says {}", op, r, ToString(results[r].sizes().vec()),
                 ToString(expected));
  }
  return results;
}

std::vector<at::Tensor> Leaves(const Rule& rule, std::span<const at::Tensor> operands) {
  std::vector<at::Tensor> leaves;
  for (size_t o = 0; o < operands.size(); ++o) {
    leaves.push_back(operands[o].detach().clone().set_requires_grad(IsIn(rule.differentiable, o)));
  }
  return leaves;
}

}  // namespace sharded

namespace {

constexpr double kLeast = -1e3;  // below all samples, and near enough for sums to stay exact

// The position of a rank on each axis.
std::vector<int64_t> PositionOf(int64_t rank, std::span<const SplitAxis> axes) {
  std::vector<int64_t> position;
  for (const SplitAxis& axis : axes) {
    position.push_back(rank % axis.ranks);
    rank /= axis.ranks;
  }
  return position;
}

std::vector<Block> BlocksAt(const Rule& rule, std::span<const SplitAxis> axes,
                            const std::vector<int64_t>& position) {
  std::vector<Block> blocks = WholeBlocks(rule);
  for (size_t a = 0; a < axes.size(); ++a) {
    size_t f = static_cast<size_t>(axes[a].factor);
    blocks[f] = FactorBlock(rule.factors[f].size, axes[a].ranks, position[a]);
  }
  return blocks;
}

// Collects the shards of one result.
class Recombine {
 public:
  Recombine(const Rule& rule, const Dims& dims, std::span<const SplitAxis> axes,
            const at::Tensor& like)
      : rule_(rule), dims_(dims), axes_(axes) {
    for (const SplitAxis& axis : axes) {
      bool maxed = rule.factors[static_cast<size_t>(axis.factor)].kind == FactorKind::kMaxed;
      max_ = max_ || (maxed && !Has(dims, axis.factor));
    }
    at::Tensor empty = at::zeros(GlobalShape(rule, dims), like.options());
    global_ = max_ ? at::full_like(empty, kLeast) : empty;
  }

  void Add(const at::Tensor& shard, const std::vector<int64_t>& position,
           std::span<const Block> blocks) {
    // Ranks that differ only along a parallel factor which the result lacks hold the same.
    for (size_t a = 0; a < axes_.size(); ++a) {
      FactorKind kind = rule_.factors[static_cast<size_t>(axes_[a].factor)].kind;
      if (Has(dims_, axes_[a].factor) || kind != FactorKind::kParallel) continue;
      if (position[a] != 0) return;
    }
    if (max_) {
      at::Tensor placed = at::full_like(global_, kLeast);
      auto coordinates = Coordinates(rule_, dims_, blocks);
      AddInto(placed, shard.detach() - kLeast, coordinates);
      global_ = at::maximum(global_, placed);
    } else {
      AddInto(global_, shard.detach(), Coordinates(rule_, dims_, blocks));
    }
  }

  at::Tensor Get() const { return global_; }

 private:
  const Rule& rule_;
  const Dims& dims_;
  std::span<const SplitAxis> axes_;
  bool max_ = false;
  at::Tensor global_;
};

}  // namespace

std::vector<std::vector<int64_t>> Coordinates(const Rule& rule, const Dims& dims,
                                              std::span<const Block> blocks) {
  std::vector<std::vector<int64_t>> coordinates;
  for (const Dim& dim : dims) {
    std::vector<int64_t> held;
    int64_t offset = 0;
    for (const auto& term : dim.terms) {
      std::vector<int64_t> inner = {0};
      int64_t size = 1;
      for (int f : term) {
        std::vector<int64_t> next;
        size_t index = static_cast<size_t>(f);
        for (int64_t outer : inner) {
          for (int64_t at = blocks[index].begin; at < blocks[index].end; ++at) {
            next.push_back(outer * rule.factors[index].size + at);
          }
        }
        inner = std::move(next);
        size *= rule.factors[index].size;
      }
      for (int64_t at : inner) held.push_back(offset + at);
      offset += size;
    }
    coordinates.push_back(std::move(held));
  }
  return coordinates;
}

at::Tensor Take(const at::Tensor& global, const std::vector<std::vector<int64_t>>& coordinates) {
  at::Tensor part = global;
  for (size_t d = 0; d < coordinates.size(); ++d) {
    at::Tensor index = at::tensor(coordinates[d], at::kLong).to(global.device());
    part = part.index_select(static_cast<int64_t>(d), index);
  }
  return part;
}

void AddInto(at::Tensor& global, const at::Tensor& part,
             const std::vector<std::vector<int64_t>>& coordinates) {
  at::Tensor linear = at::zeros({}, global.options().dtype(at::kLong));
  for (size_t d = 0; d < coordinates.size(); ++d) {
    linear = linear.unsqueeze(-1) * global.size(static_cast<int64_t>(d)) +
             at::tensor(coordinates[d], at::kLong).to(global.device());
  }
  if (part.numel() == 0) return;
  at::Tensor flat = global.view({-1});
  if (global.scalar_type() == at::kBool) {
    flat.index_put_({linear.reshape(-1)}, part.reshape(-1));
  } else {
    flat.index_add_(0, linear.reshape(-1), part.reshape(-1).to(global.scalar_type()));
  }
}

std::vector<at::Tensor> Gradients(const Rule& rule, std::span<const at::Tensor> results,
                                  std::span<const at::Tensor> result_gradients,
                                  std::span<const at::Tensor> operands) {
  std::vector<at::Tensor> gradients(operands.size());
  std::vector<at::Tensor> outputs, seeds, inputs;
  for (size_t r = 0; r < results.size(); ++r) {
    if (!results[r].requires_grad() || !result_gradients[r].defined()) continue;
    outputs.push_back(results[r]);
    seeds.push_back(result_gradients[r].to(results[r].scalar_type()));
  }
  for (int o : rule.differentiable) inputs.push_back(operands[static_cast<size_t>(o)]);
  if (outputs.empty() || inputs.empty()) return gradients;
  auto found = torch::autograd::grad(outputs, inputs, seeds, /*retain_graph=*/true,
                                     /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < found.size(); ++i) {
    gradients[static_cast<size_t>(rule.differentiable[i])] =
        found[i].defined() ? found[i] : at::zeros_like(inputs[i]);
  }
  return gradients;
}

Evaluation EvaluateWhole(std::string_view op, const Attributes& attributes, const Rule& rule,
                         std::span<const at::Tensor> operands,
                         std::span<const at::Tensor> result_gradients) {
  std::vector<at::Tensor> leaves = sharded::Leaves(rule, operands);
  Evaluation whole;
  whole.results = sharded::Run(op, attributes, rule, WholeBlocks(rule), leaves);
  whole.gradients = Gradients(rule, whole.results, result_gradients, leaves);
  return whole;
}

Evaluation EvaluateSplit(std::string_view op, const Attributes& attributes, const Rule& rule,
                         std::span<const at::Tensor> operands,
                         std::span<const at::Tensor> result_gradients,
                         std::span<const SplitAxis> axes) {
  int64_t ranks = 1;
  for (const SplitAxis& axis : axes) ranks *= axis.ranks;
  Evaluation split;
  split.gradients.resize(operands.size());
  std::vector<Recombine> results;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<int64_t> position = PositionOf(rank, axes);
    std::vector<Block> blocks = BlocksAt(rule, axes, position);
    std::vector<at::Tensor> local;
    for (size_t o = 0; o < operands.size(); ++o) {
      local.push_back(Take(operands[o], Coordinates(rule, rule.operands[o], blocks)));
    }
    local = sharded::Leaves(rule, local);
    std::vector<at::Tensor> out = sharded::Run(op, attributes, rule, blocks, local);
    std::vector<at::Tensor> seeds(out.size());
    for (size_t r = 0; r < out.size(); ++r) {
      if (rank == 0) results.emplace_back(rule, rule.results[r], axes, out[r]);
      results[r].Add(out[r], position, blocks);
      if (!result_gradients[r].defined()) continue;
      seeds[r] = Take(result_gradients[r], Coordinates(rule, rule.results[r], blocks));
    }
    std::vector<at::Tensor> gradients = Gradients(rule, out, seeds, local);
    for (int d : rule.differentiable) {
      size_t o = static_cast<size_t>(d);
      if (!split.gradients[o].defined()) split.gradients[o] = at::zeros_like(operands[o]);
      if (!gradients[o].defined()) continue;
      AddInto(split.gradients[o], gradients[o], Coordinates(rule, rule.operands[o], blocks));
    }
  }
  for (const Recombine& result : results) split.results.push_back(result.Get());
  return split;
}

Evaluation EvaluatePartial(std::string_view op, const Attributes& attributes, const Rule& rule,
                           std::span<const at::Tensor> operands,
                           std::span<const at::Tensor> result_gradients,
                           const std::vector<int>& partial) {
  constexpr int kRanks = 3;
  std::vector<std::vector<at::Tensor>> local(kRanks);
  for (size_t o = 0; o < operands.size(); ++o) {
    at::Tensor rest = operands[o];
    for (int rank = 0; rank < kRanks; ++rank) {
      at::Tensor share = operands[o];
      if (sharded::IsIn(partial, o)) {
        share = rank + 1 < kRanks ? at::randn_like(rest) : rest;
        rest = rest - share;
      }
      local[static_cast<size_t>(rank)].push_back(share);
    }
  }
  Evaluation sum;
  sum.gradients.resize(operands.size());
  for (const std::vector<at::Tensor>& shares : local) {
    Evaluation one = EvaluateWhole(op, attributes, rule, shares, result_gradients);
    for (size_t r = 0; r < one.results.size(); ++r) {
      if (sum.results.size() <= r) sum.results.push_back(at::zeros_like(one.results[r]));
      sum.results[r] = sum.results[r] + one.results[r].detach();
    }
    for (size_t o = 0; o < operands.size(); ++o) {
      if (!one.gradients[o].defined()) continue;
      // Every term of a partial operand has the whole gradient; other operands' gradients are
      // partial.
      bool term = sharded::IsIn(partial, o);
      sum.gradients[o] = sum.gradients[o].defined() && !term ? sum.gradients[o] + one.gradients[o]
                                                             : one.gradients[o];
    }
  }
  return sum;
}

}  // namespace heddle
