// A graph in shards, node by node: splits followed through the rules.
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "base/check.h"
#include "ops/op.h"
#include "runtime/kernels/sharded_eval.h"
#include "runtime/kernels/sharded_eval_parts.h"
#include "runtime/tensor.h"

namespace heddle {
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
    local = sharded::Leaves(record.rule, local);
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
        sharded::Run(record.node->op, record.node->attributes, record.rule, blocks, local));
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
    bool partial = found < 0 && (record.factor >= 0 ||
                                 (!record.partial.empty() && !sharded::IsIn(record.partial, o)));
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
