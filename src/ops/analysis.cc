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

}  // namespace

Rules MakeRules(const Graph& graph) {
  Rules rules;
  rules.reserve(graph.nodes.size());
  RuleMaker maker;
  for (const Node& node : graph.nodes) {
    try {
      rules.push_back(maker.Of(graph, node));
    } catch (const InputError& error) {
      ThrowInput("'{}': {}", graph.value(node.results.front()).name, error.what());
    }
  }
  return rules;
}

GradientFlow FindGradients(const Graph& graph, const Rules& rules) {
  GradientFlow flow;
  flow.needed.assign(graph.values.size(), false);
  flow.weight.assign(graph.values.size(), false);
  std::vector<bool> fixed(graph.values.size(),
                          false);  // parameters, constants and what follows from them
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
  // A gradient must also come from the loss: what leads to it only through an ArgMax has none.
  std::vector<bool> reached(graph.values.size(), false);
  for (ValueId output : graph.outputs) reached[output.index()] = true;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    bool any = std::any_of(node.results.begin(), node.results.end(),
                           [&](ValueId id) { return reached[id.index()]; });
    if (!any) continue;
    for (int o : rules[n].differentiable)
      reached[node.operands[static_cast<size_t>(o)].index()] = true;
  }
  for (size_t v = 0; v < reached.size(); ++v) {
    flow.needed[v] = flow.needed[v] && reached[v];
    flow.weight[v] = flow.weight[v] && reached[v];
  }
  return flow;
}

Halves NodeWork(const Node& node, const Rule& rule, const GradientFlow& flow,
                std::span<const Block> blocks) {
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

std::vector<ValueId> Storages(const Graph& graph, const Rules& rules) {
  std::vector<ValueId> storage;
  for (size_t v = 0; v < graph.values.size(); ++v) storage.push_back(ValueId::FromIndex(v));
  std::vector<bool> row_major(graph.values.size(), true);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!rules[n].view) continue;
    size_t source = node.operands[0].index();
    // A reshape of what is not row-major moves it, and so has a storage of its own.
    bool reshape = TraitsOf(node.op).elements == ResultElements::kReshaped;
    if (reshape && !row_major[source]) continue;
    for (ValueId id : node.results) {
      storage[id.index()] = storage[source];
      row_major[id.index()] = reshape;
    }
  }
  return storage;
}

NodeKept KeptBy(const Node& node, const Rule& rule, const GradientFlow& flow) {
  NodeKept kept;
  auto keep = [&](ValueId value) { kept.values.push_back(value); };
  std::vector<int> wanted;
  for (int o : rule.differentiable) {
    if (flow.needed[node.operands[static_cast<size_t>(o)].index()]) wanted.push_back(o);
  }
  bool comes = std::any_of(node.results.begin(), node.results.end(),
                           [&](ValueId value) { return flow.needed[value.index()]; });
  kept.any = !wanted.empty() && comes;
  if (!kept.any) return kept;
  for (int o : rule.keep.operands) keep(node.operands[static_cast<size_t>(o)]);
  const std::vector<int>& crossed = rule.keep.crossed;
  for (int o : crossed) {
    bool other = std::any_of(wanted.begin(), wanted.end(), [&](int w) {
      return w != o && std::find(crossed.begin(), crossed.end(), w) != crossed.end();
    });
    if (other) keep(node.operands[static_cast<size_t>(o)]);
  }
  for (int r : rule.keep.results) keep(node.results[static_cast<size_t>(r)]);
  return kept;
}

KeptSet FindKept(const Graph& graph, const Rules& rules, const GradientFlow& flow,
                 const std::vector<ValueId>& storages, std::span<const NodeId> nodes) {
  KeptSet kept{std::vector<bool>(graph.values.size(), false), 0};
  for (NodeId id : nodes) {
    const Rule& rule = rules[id.index()];
    NodeKept by = KeptBy(graph.node(id), rule, flow);
    for (ValueId value : by.values) kept.values[storages[value.index()].index()] = true;
    if (!by.any) continue;
    std::vector<Block> blocks = WholeBlocks(rule);
    for (const KeepTerm& term : rule.keep.extra) {
      kept.extra_bytes += term.bytes * Points(blocks, term.factors);
    }
  }
  return kept;
}

double KeptBytes(const Graph& graph, const KeptSet& kept, int64_t float_bytes) {
  double bytes = kept.extra_bytes;
  for (size_t v = 0; v < kept.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (!kept.values[v] || value.kind != ValueKind::kActivation) continue;
    bool scaled = float_bytes != 0 && IsFloat(value.type.dtype);
    bytes += static_cast<double>(ElementCount(value.type.shape, value.name)) *
             static_cast<double>(scaled ? float_bytes : SizeOf(value.type.dtype));
  }
  return bytes;
}

std::vector<NodeId> AllNodes(const Graph& graph) {
  std::vector<NodeId> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n) nodes.push_back(NodeId::FromIndex(n));
  return nodes;
}

ModelSize Measure(const Graph& graph) { return Measure(graph, MakeRules(graph)); }

ModelSize Measure(const Graph& graph, const Rules& rules) {
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
  KeptSet kept = FindKept(graph, rules, flow, Storages(graph, rules), AllNodes(graph));
  size.activation_bytes = KeptBytes(graph, kept);
  return size;
}

}  // namespace heddle
