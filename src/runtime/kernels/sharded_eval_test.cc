#include "runtime/kernels/sharded_eval.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "base/check.h"
#include "ops/op.h"
#include "runtime/tensor.h"

namespace heddle {
namespace {

constexpr RandomState kRandom{11, 22, 33};
constexpr double kLeast = -1e3;  // below all samples, and near enough for sums to stay exact

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

// Operands as leaves of a new autograd graph.
std::vector<at::Tensor> Leaves(const Rule& rule, std::span<const at::Tensor> operands) {
  std::vector<at::Tensor> leaves;
  for (size_t o = 0; o < operands.size(); ++o) {
    leaves.push_back(operands[o].detach().clone().set_requires_grad(IsIn(rule.differentiable, o)));
  }
  return leaves;
}

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
  std::vector<at::Tensor> leaves = Leaves(rule, operands);
  Evaluation whole;
  whole.results = Run(op, attributes, rule, WholeBlocks(rule), leaves);
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
    local = Leaves(rule, local);
    std::vector<at::Tensor> out = Run(op, attributes, rule, blocks, local);
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
      if (IsIn(partial, o)) {
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
      bool term = IsIn(partial, o);
      sum.gradients[o] = sum.gradients[o].defined() && !term ? sum.gradients[o] + one.gradients[o]
                                                             : one.gradients[o];
    }
  }
  return sum;
}

namespace {

enum class State { kComplete, kPartialSum, kPartialMax };

// A value on every rank.
struct Sharded {
  std::vector<at::Tensor> shards;
  int split_dim = -1;
  State state = State::kComplete;
};

class GraphEvaluator {
 public:
  GraphEvaluator(const Graph& graph, int64_t ranks)
      : graph_(graph),
        ranks_(static_cast<size_t>(ranks)),
        values_(graph.values.size()),
        gradients_(graph.values.size()) {}

  void Set(ValueId id, const at::Tensor& global, int split_dim) {
    Sharded& value = values_[Index(id)];
    value.split_dim = split_dim;
    for (size_t rank = 0; rank < ranks_; ++rank)
      value.shards.push_back(Cut(global, split_dim, rank));
  }

  void Forward() {
    for (const Node& node : graph_.nodes) Forward(node);
  }
  void Backward() {
    for (size_t n = records_.size(); n-- > 0;) Backward(records_[n]);
  }

  // The global value: concatenated, summed or maximised.
  at::Tensor Get(ValueId id) const {
    const Sharded& value = values_[Index(id)];
    if (value.split_dim >= 0) return at::cat(Detached(value.shards), value.split_dim);
    if (value.state == State::kComplete) return value.shards[0].detach();
    return Reduce(value);
  }
  // Its gradient, split like the value and otherwise complete on every rank.
  at::Tensor GetGradient(ValueId id) const {
    const std::vector<at::Tensor>& shards = gradients_[Index(id)];
    if (shards.empty()) return {};
    int dim = values_[Index(id)].split_dim;
    return dim >= 0 ? at::cat(shards, dim) : shards[0];
  }
  void Seed(ValueId id, const at::Tensor& gradient) {
    for (size_t rank = 0; rank < ranks_; ++rank) {
      gradients_[Index(id)].push_back(Cut(gradient, values_[Index(id)].split_dim, rank));
    }
  }

 private:
  struct Record {
    const Node* node;
    Rule rule;
    int factor = -1;
    std::vector<int> partial;                                // operands passed on as partial sums
    std::vector<std::vector<at::Tensor>> operands, results;  // per rank
  };

  static size_t Index(ValueId id) { return static_cast<size_t>(id.value); }

  static std::vector<at::Tensor> Detached(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> detached;
    for (const at::Tensor& tensor : tensors) detached.push_back(tensor.detach());
    return detached;
  }

  at::Tensor Cut(const at::Tensor& global, int dim, size_t rank) const {
    if (dim < 0) return global;
    Block block =
        FactorBlock(global.size(dim), static_cast<int64_t>(ranks_), static_cast<int64_t>(rank));
    return global.narrow(dim, block.begin, block.size());
  }

  static at::Tensor Reduce(const Sharded& value) {
    at::Tensor all = at::stack(Detached(value.shards));
    return value.state == State::kPartialMax ? all.amax(0) : all.sum(0);
  }

  // The factor along which the operands of a node are split, or -1.
  int SplitFactor(const Node& node, const Rule& rule) const {
    int factor = -1;
    for (size_t o = 0; o < node.operands.size(); ++o) {
      int dim = values_[Index(node.operands[o])].split_dim;
      if (dim < 0) continue;
      const Dim& parts = rule.operands[o][static_cast<size_t>(dim)];
      HEDDLE_CHECK(parts.terms.size() == 1 && parts.terms[0].size() == 1, "not a plain dimension");
      HEDDLE_CHECK(factor < 0 || factor == parts.terms[0][0], "operands split along two factors");
      factor = parts.terms[0][0];
    }
    return factor;
  }

  static int DimOf(const Dims& dims, int factor) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (factor >= 0 && Has({dims[d]}, factor)) return static_cast<int>(d);
    }
    return -1;
  }

  void Forward(const Node& node) {
    Record record{&node, MakeRule(graph_, node), -1, {}, {}, {}};
    record.factor = SplitFactor(node, record.rule);
    bool maximum = false;
    for (size_t o = 0; o < node.operands.size(); ++o) {
      State state = values_[Index(node.operands[o])].state;
      if (state != State::kComplete) record.partial.push_back(static_cast<int>(o));
      maximum |= state == State::kPartialMax;
    }
    const auto& linear = record.rule.linear;
    bool passes = !maximum && record.factor < 0 &&
                  std::find(linear.begin(), linear.end(), record.partial) != linear.end();
    if (!passes) record.partial.clear();
    for (size_t rank = 0; rank < ranks_; ++rank) RunRank(record, rank);
    for (size_t r = 0; r < node.results.size(); ++r) Finish(record, r);
    records_.push_back(std::move(record));
  }

  void RunRank(Record& record, size_t rank) {
    std::vector<at::Tensor> local;
    for (size_t o = 0; o < record.node->operands.size(); ++o) {
      const Sharded& value = values_[Index(record.node->operands[o])];
      int wanted = DimOf(record.rule.operands[o], record.factor);
      bool reduce = value.state != State::kComplete && record.partial.empty();
      at::Tensor shard = reduce ? Reduce(value) : value.shards[rank];
      local.push_back(wanted != value.split_dim ? Cut(shard, wanted, rank) : shard);
    }
    local = Leaves(record.rule, local);
    std::vector<Block> blocks = WholeBlocks(record.rule);
    if (record.factor >= 0) {
      size_t f = static_cast<size_t>(record.factor);
      FactorKind kind = record.rule.factors[f].kind;
      HEDDLE_CHECK(kind != FactorKind::kWhole && kind != FactorKind::kExpanded,
                   "{} cannot be split along {}", record.node->op, record.rule.factors[f].name);
      blocks[f] = FactorBlock(record.rule.factors[f].size, static_cast<int64_t>(ranks_),
                              static_cast<int64_t>(rank));
    }
    record.results.push_back(
        Run(record.node->op, record.node->attributes, record.rule, blocks, local));
    record.operands.push_back(std::move(local));
  }

  void Finish(const Record& record, size_t r) {
    Sharded& value = values_[Index(record.node->results[r])];
    for (const auto& results : record.results) value.shards.push_back(results[r]);
    value.split_dim = DimOf(record.rule.results[r], record.factor);
    if (!record.partial.empty()) value.state = State::kPartialSum;
    if (record.factor < 0 || value.split_dim >= 0) return;
    FactorKind kind = record.rule.factors[static_cast<size_t>(record.factor)].kind;
    if (kind == FactorKind::kSummed) value.state = State::kPartialSum;
    if (kind == FactorKind::kMaxed) value.state = State::kPartialMax;
  }

  void Backward(const Record& record) {
    std::vector<std::vector<at::Tensor>> found(record.node->operands.size());
    for (size_t rank = 0; rank < ranks_; ++rank) {
      std::vector<at::Tensor> seeds;
      for (ValueId result : record.node->results) {
        const auto& shards = gradients_[Index(result)];
        seeds.push_back(shards.empty() ? at::Tensor() : shards[rank]);
      }
      auto gradients = Gradients(record.rule, record.results[rank], seeds, record.operands[rank]);
      for (size_t o = 0; o < found.size(); ++o) {
        if (gradients[o].defined()) found[o].push_back(gradients[o]);
      }
    }
    for (size_t o = 0; o < found.size(); ++o) {
      if (!found[o].empty()) Accumulate(record, o, std::move(found[o]));
    }
  }

  void Accumulate(const Record& record, size_t o, std::vector<at::Tensor> shards) {
    ValueId id = record.node->operands[o];
    int held = values_[Index(id)].split_dim;
    int found = DimOf(record.rule.operands[o], record.factor);
    bool partial =
        found < 0 && (record.factor >= 0 || (!record.partial.empty() && !IsIn(record.partial, o)));
    if (partial) shards.assign(ranks_, at::stack(shards).sum(0));
    if (found >= 0 && held < 0) shards.assign(ranks_, at::cat(shards, found));
    auto& total = gradients_[Index(id)];
    for (size_t rank = 0; rank < ranks_; ++rank) {
      if (total.size() <= rank) {
        total.push_back(shards[rank]);
      } else {
        total[rank] = total[rank] + shards[rank];
      }
    }
  }

  const Graph& graph_;
  size_t ranks_;
  std::vector<Sharded> values_;
  std::vector<std::vector<at::Tensor>> gradients_;
  std::vector<Record> records_;
};

}  // namespace

Evaluation EvaluateGraph(const Graph& graph, std::span<const at::Tensor> operands,
                         std::span<const at::Tensor> result_gradients,
                         const std::vector<int>& split_dims, int64_t ranks) {
  GraphEvaluator evaluator(graph, ranks);
  std::vector<ValueId> inputs = graph.ValuesOf(ValueKind::kInput);
  for (size_t i = 0; i < inputs.size(); ++i) evaluator.Set(inputs[i], operands[i], split_dims[i]);
  for (ValueId id : graph.ValuesOf(ValueKind::kConstant)) {
    evaluator.Set(id, ToTorchTensor(*graph.value(id).data), -1);
  }
  evaluator.Forward();
  Evaluation evaluation;
  for (size_t r = 0; r < graph.outputs.size(); ++r) {
    evaluation.results.push_back(evaluator.Get(graph.outputs[r]));
    evaluator.Seed(graph.outputs[r], result_gradients[r]);
  }
  evaluator.Backward();
  for (ValueId input : inputs) evaluation.gradients.push_back(evaluator.GetGradient(input));
  return evaluation;
}

}  // namespace heddle
