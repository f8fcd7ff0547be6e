#include "ops/analysis.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/error.h"
#include "ops/op.h"

namespace heddle {
namespace {

void AddWork(Work& to, double flops, bool contraction) {
  to.flops += flops;
  if (contraction) to.contraction_flops += flops;
}

void AddWork(Work& to, const Work& from) {
  to.flops += from.flops;
  to.contraction_flops += from.contraction_flops;
}

double Points(std::span<const Block> blocks, const std::vector<int>& factors) {
  double points = 1;
  for (int f : factors) points *= static_cast<double>(blocks[static_cast<size_t>(f)].size());
  return points;
}

// The values whose storage a node's backward half needs.
class Kept {
 public:
  Kept(const Graph& graph, const std::vector<Rule>& rules, const std::vector<bool>& needs)
      : graph_(graph), rules_(rules), needs_(needs), storage_(graph.values.size()),
        row_major_(graph.values.size(), true), kept_(graph.values.size(), false) {
    for (size_t v = 0; v < storage_.size(); ++v) storage_[v] = v;
  }

  double Bytes() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) Visit(graph_.nodes[n], rules_[n]);
    double bytes = extra_;
    for (size_t v = 0; v < kept_.size(); ++v) {
      const Value& value = graph_.values[v];
      if (kept_[v] && value.kind == ValueKind::kActivation) {
        bytes += static_cast<double>(ByteCount(value.type, value.name));
      }
    }
    return bytes;
  }

 private:
  void Keep(ValueId id) { kept_[storage_[static_cast<size_t>(id.value)]] = true; }

  void Visit(const Node& node, const Rule& rule) {
    if (rule.view) Alias(node);
    auto needs = [&](int o) {
      return needs_[static_cast<size_t>(node.operands[static_cast<size_t>(o)].value)];
    };
    std::vector<int> wanted;
    for (int o : rule.differentiable) {
      if (needs(o)) wanted.push_back(o);
    }
    if (wanted.empty()) return;
    for (int o : rule.keep.operands) Keep(node.operands[static_cast<size_t>(o)]);
    for (int o : rule.keep.crossed) {
      bool other = std::any_of(wanted.begin(), wanted.end(), [o](int w) { return w != o; });
      if (other) Keep(node.operands[static_cast<size_t>(o)]);
    }
    for (int r : rule.keep.results) Keep(node.results[static_cast<size_t>(r)]);
    std::vector<Block> blocks = WholeBlocks(rule);
    for (const KeepTerm& term : rule.keep.extra) extra_ += term.bytes * Points(blocks, term.factors);
  }

  // A reshape of what is not row-major moves it, and so has a storage of its own.
  void Alias(const Node& node) {
    size_t source = static_cast<size_t>(node.operands[0].value);
    bool reshape = node.op == "Reshape";
    if (reshape && !row_major_[source]) return;
    for (ValueId id : node.results) {
      storage_[static_cast<size_t>(id.value)] = storage_[source];
      row_major_[static_cast<size_t>(id.value)] = reshape;
    }
  }

  const Graph& graph_;
  const std::vector<Rule>& rules_;
  const std::vector<bool>& needs_;
  std::vector<size_t> storage_;  // the value whose memory each one looks at
  std::vector<bool> row_major_;
  std::vector<bool> kept_;
  double extra_ = 0;
};

}  // namespace

std::vector<Rule> MakeRules(const Graph& graph) {
  std::vector<Rule> rules;
  rules.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    try {
      rules.push_back(MakeRule(graph, node));
    } catch (const InputError& error) {
      ThrowInput("'{}': {}", graph.value(node.results.front()).name, error.what());
    }
  }
  return rules;
}

std::vector<bool> NeedsGradient(const Graph& graph, const std::vector<Rule>& rules) {
  std::vector<bool> needs(graph.values.size(), false);
  for (ValueId id : graph.ValuesOf(ValueKind::kParameter)) needs[static_cast<size_t>(id.value)] = true;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    bool any = false;
    for (int o : rules[n].differentiable) {
      any = any || needs[static_cast<size_t>(node.operands[static_cast<size_t>(o)].value)];
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      needs[static_cast<size_t>(node.results[r].value)] = any && IsFloat(rules[n].result_dtypes[r]);
    }
  }
  return needs;
}

Halves NodeWork(const Graph& graph, const Node& node, const Rule& rule,
                const std::vector<bool>& needs_gradient, std::span<const Block> blocks) {
  Halves halves;
  halves.forward = ForwardWork(rule, blocks);
  std::vector<std::vector<int>> each;
  for (int o : rule.differentiable) each.push_back({o});
  for (const WorkTerm& term : rule.work) {
    double flops = term.flops * Points(blocks, term.factors);
    for (const std::vector<int>& set : term.gradients.empty() ? each : term.gradients) {
      bool activation = false, parameter = false;
      for (int o : set) {
        if (static_cast<size_t>(o) >= node.operands.size()) continue;  // an optional one
        ValueId id = node.operands[static_cast<size_t>(o)];
        if (!needs_gradient[static_cast<size_t>(id.value)]) continue;
        (graph.value(id).kind == ValueKind::kParameter ? parameter : activation) = true;
      }
      if (activation) {
        AddWork(halves.backward, flops, term.contraction);
      } else if (parameter) {
        AddWork(halves.weight, flops, term.contraction);
      }
    }
  }
  return halves;
}

ModelSize Measure(const Graph& graph) {
  ModelSize size;
  size.nodes = static_cast<int64_t>(graph.nodes.size());
  for (ValueId id : graph.ValuesOf(ValueKind::kParameter)) {
    const Value& value = graph.value(id);
    size.parameters = CheckedAdd(size.parameters, ElementCount(value.type.shape, value.name),
                                 "the number of parameters");
    ++size.parameter_tensors;
  }
  std::vector<Rule> rules = MakeRules(graph);
  std::vector<bool> needs = NeedsGradient(graph, rules);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Halves halves = NodeWork(graph, graph.nodes[n], rules[n], needs, WholeBlocks(rules[n]));
    AddWork(size.work.forward, halves.forward);
    AddWork(size.work.backward, halves.backward);
    AddWork(size.work.weight, halves.weight);
  }
  size.activation_bytes = Kept(graph, rules, needs).Bytes();
  return size;
}

}  // namespace heddle
