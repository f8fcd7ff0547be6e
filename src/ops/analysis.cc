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

  double Bytes(std::span<const NodeId> nodes, int64_t float_bytes) {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (rules_[n].view) Alias(graph_.nodes[n]);
    }
    for (NodeId id : nodes) Visit(graph_.node(id), rules_[id.index()]);
    double bytes = extra_;
    for (size_t v = 0; v < kept_.size(); ++v) {
      const Value& value = graph_.values[v];
      if (!kept_[v] || value.kind != ValueKind::kActivation) continue;
      bool scaled = float_bytes != 0 && IsFloat(value.type.dtype);
      bytes += static_cast<double>(ElementCount(value.type.shape, value.name)) *
               static_cast<double>(scaled ? float_bytes : SizeOf(value.type.dtype));
    }
    return bytes;
  }

 private:
  void Keep(ValueId id) { kept_[storage_[static_cast<size_t>(id.value)]] = true; }

  void Visit(const Node& node, const Rule& rule) {
    auto needs = [&](int o) {
      return needs_[static_cast<size_t>(node.operands[static_cast<size_t>(o)].value)];
    };
    std::vector<int> wanted;
    for (int o : rule.differentiable) {
      if (needs(o)) wanted.push_back(o);
    }
    if (wanted.empty()) return;
    for (int o : rule.keep.operands) Keep(node.operands[static_cast<size_t>(o)]);
    const std::vector<int>& crossed = rule.keep.crossed;
    for (int o : crossed) {
      bool other = std::any_of(wanted.begin(), wanted.end(), [&](int w) {
        return w != o && std::find(crossed.begin(), crossed.end(), w) != crossed.end();
      });
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

GradientFlow FindGradients(const Graph& graph, const std::vector<Rule>& rules) {
  GradientFlow flow;
  flow.needed.assign(graph.values.size(), false);
  flow.weight.assign(graph.values.size(), false);
  std::vector<bool> fixed(graph.values.size(), false);  // parameters, constants and what follows from them
  for (size_t v = 0; v < graph.values.size(); ++v) {
    bool parameter = graph.values[v].kind == ValueKind::kParameter;
    flow.needed[v] = flow.weight[v] = parameter;
    fixed[v] = parameter || graph.values[v].kind == ValueKind::kConstant;
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    bool any = false;
    for (int o : rules[n].differentiable) {
      any = any || flow.needed[node.operands[static_cast<size_t>(o)].index()];
    }
    bool all_fixed = std::all_of(node.operands.begin(), node.operands.end(),
                                 [&](ValueId id) { return fixed[id.index()]; });
    for (size_t r = 0; r < node.results.size(); ++r) {
      size_t v = node.results[r].index();
      flow.needed[v] = any && IsFloat(rules[n].result_dtypes[r]);
      flow.weight[v] = flow.needed[v] && all_fixed;
      fixed[v] = all_fixed;
    }
  }
  return flow;
}

Halves NodeWork(const Node& node, const Rule& rule,
                const GradientFlow& flow, std::span<const Block> blocks) {
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
        if (!flow.needed[id.index()]) continue;
        (flow.weight[id.index()] ? parameter : activation) = true;
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

double KeptBytes(const Graph& graph, const std::vector<Rule>& rules, const GradientFlow& flow,
                 std::span<const NodeId> nodes, int64_t float_bytes) {
  return Kept(graph, rules, flow.needed).Bytes(nodes, float_bytes);
}

std::vector<NodeId> AllNodes(const Graph& graph) {
  std::vector<NodeId> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n) nodes.push_back(NodeId::FromIndex(n));
  return nodes;
}

ModelSize Measure(const Graph& graph) { return Measure(graph, MakeRules(graph)); }

ModelSize Measure(const Graph& graph, const std::vector<Rule>& rules) {
  ModelSize size;
  size.nodes = static_cast<int64_t>(graph.nodes.size());
  for (ValueId id : graph.ValuesOf(ValueKind::kParameter)) {
    const Value& value = graph.value(id);
    size.parameters = CheckedAdd(size.parameters, ElementCount(value.type.shape, value.name),
                                 "the number of parameters");
    ++size.parameter_tensors;
  }
  GradientFlow flow = FindGradients(graph, rules);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Halves halves = NodeWork(graph.nodes[n], rules[n], flow, WholeBlocks(rules[n]));
    AddWork(size.work.forward, halves.forward);
    AddWork(size.work.backward, halves.backward);
    AddWork(size.work.weight, halves.weight);
  }
  size.activation_bytes = KeptBytes(graph, rules, flow, AllNodes(graph));
  return size;
}

}  // namespace heddle
