#include "fold/recompute.h"

#include <algorithm>

namespace heddle {
namespace {

void Unite(KeptSet& into, const KeptSet& other) {
  for (size_t v = 0; v < into.values.size(); ++v)
    into.values[v] = into.values[v] || other.values[v];
  into.extra_bytes += other.extra_bytes;
}

}  // namespace

KeptSet FindRecomputed(const Graph& graph, const Rules& rules, const GradientFlow& flow,
                       const Folding& folding) {
  std::vector<ValueId> storages = Storages(graph, rules);
  std::vector<int> block(graph.nodes.size(), -1);
  int blocks = 0;
  for (const Chain& chain : folding.chains) {
    for (const auto& copy : chain.copies) {
      for (NodeId id : copy) block[id.index()] = blocks;
      ++blocks;
    }
  }
  std::vector<NodeId> outside;
  for (NodeId id : AllNodes(graph)) {
    if (block[id.index()] < 0) outside.push_back(id);
  }
  KeptSet kept = FindKept(graph, rules, flow, storages, outside);
  // A block is recomputed from the values that come into it, as far as gradients flow through it.
  for (NodeId id : AllNodes(graph)) {
    const Node& node = graph.node(id);
    bool needed = std::any_of(node.results.begin(), node.results.end(),
                              [&](ValueId value) { return flow.needed[value.index()]; });
    if (block[id.index()] < 0 || !needed) continue;
    for (ValueId operand : node.operands) {
      NodeId producer = graph.value(operand).producer;
      bool crosses = producer.valid() && block[producer.index()] != block[id.index()];
      if (crosses) kept.values[storages[operand.index()].index()] = true;
    }
  }
  KeptSet largest{std::vector<bool>(graph.values.size(), false), 0};
  for (const Chain& chain : folding.chains) {
    KeptSet one = FindKept(graph, rules, flow, storages, chain.copies.back());
    if (KeptBytes(graph, one) > KeptBytes(graph, largest)) largest = std::move(one);
  }
  Unite(kept, largest);
  // Small blocks may pass on more than they keep; then nothing is recomputed.
  KeptSet all = FindKept(graph, rules, flow, storages, AllNodes(graph));
  return KeptBytes(graph, kept) < KeptBytes(graph, all) ? kept : all;
}

}  // namespace heddle
