#include "fold/canonical.h"

#include <algorithm>
#include <unordered_map>

#include "base/hash.h"

namespace heddle {
namespace {

uint64_t HashDims(uint64_t hash, const std::vector<Dims>& tensors) {
  for (const Dims& dims : tensors) {
    for (const Dim& dim : dims) {
      for (const Product& term : dim.terms) {
        hash = HashCombine(hash, HashBytes(term.data(), term.size() * sizeof(term[0])));
      }
      hash = HashCombine(hash, dim.terms.size());
    }
    hash = HashCombine(hash, dims.size());
  }
  return HashCombine(hash, tensors.size());
}

uint64_t HashRule(const Rule& rule) {
  uint64_t hash = rule.factors.size();
  for (const Factor& factor : rule.factors) {
    hash = HashCombine(hash, HashString(factor.name, static_cast<uint64_t>(factor.kind)));
    hash = HashCombine(hash, static_cast<uint64_t>(factor.size));
  }
  return HashDims(HashDims(hash, rule.operands), rule.results);
}

uint64_t HashType(const TensorType& type) {
  uint64_t hash = static_cast<uint64_t>(type.dtype);
  for (int64_t size : type.shape) hash = HashCombine(hash, static_cast<uint64_t>(size));
  return hash;
}

}  // namespace

std::vector<NodeId> CanonicalOrder(const Graph& graph) {
  std::vector<NodeId> order;
  std::vector<uint8_t> state(graph.nodes.size(), 0);  // 1: its operands are being visited, 2: done
  std::vector<NodeId> stack;
  for (ValueId output : graph.outputs) {
    if (graph.value(output).producer.valid()) stack.push_back(graph.value(output).producer);
    while (!stack.empty()) {
      NodeId id = stack.back();
      uint8_t& seen = state[id.index()];
      if (seen != 0) {
        stack.pop_back();
        if (seen == 1) order.push_back(id);
        seen = 2;
        continue;
      }
      seen = 1;
      const std::vector<ValueId>& operands = graph.node(id).operands;
      for (size_t o = operands.size(); o-- > 0;) {
        NodeId producer = graph.value(operands[o]).producer;
        if (producer.valid() && state[producer.index()] == 0) stack.push_back(producer);
      }
    }
  }
  return order;
}

std::vector<uint64_t> Signatures(const Graph& graph, const Rules& rules) {
  std::vector<uint64_t> signatures;
  std::unordered_map<const Rule*, uint64_t> known;  // hashes of rules that nodes share
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    auto [of_rule, fresh] = known.try_emplace(&rules[n], 0);
    if (fresh) of_rule->second = HashRule(rules[n]);
    uint64_t hash = HashCombine(HashString(node.op), of_rule->second);
    for (ValueId id : node.operands) {
      const Value& value = graph.value(id);
      hash =
          HashCombine(hash, HashCombine(static_cast<uint64_t>(value.kind), HashType(value.type)));
    }
    for (ValueId id : node.results) hash = HashCombine(hash, HashType(graph.value(id).type));
    signatures.push_back(hash);
  }
  return signatures;
}

std::vector<uint64_t> Neighbourhoods(const Graph& graph, std::vector<uint64_t> signatures,
                                     int radius) {
  for (int step = 0; step < radius; ++step) {
    // What each node sees above it, in order, and below it, in no order.
    std::vector<uint64_t> next = signatures, below(signatures.size(), 0);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      for (size_t o = 0; o < node.operands.size(); ++o) {
        NodeId producer = graph.value(node.operands[o]).producer;
        if (!producer.valid()) continue;
        const std::vector<ValueId>& results = graph.node(producer).results;
        size_t result = static_cast<size_t>(
            std::find(results.begin(), results.end(), node.operands[o]) - results.begin());
        uint64_t edge = HashCombine(o, result);
        next[n] = HashCombine(next[n], HashCombine(edge, signatures[producer.index()]));
        below[producer.index()] += HashCombine(HashCombine(edge, 1), signatures[n]);
      }
    }
    for (size_t n = 0; n < next.size(); ++n) next[n] = HashCombine(next[n], below[n]);
    signatures = std::move(next);
  }
  return signatures;
}

}  // namespace heddle
