#include "ops/moved_bytes.h"

#include <algorithm>

namespace heddle {
namespace {

double BytesOf(const Graph& graph, ValueId id, const Rule& rule, const Dims& dims,
               std::span<const Block> blocks) {
  return static_cast<double>(SizeOf(graph.value(id).type.dtype)) *
         static_cast<double>(LocalElements(rule, dims, blocks));
}

}  // namespace

bool ReadsRows(const OpTraits& traits) {
  return traits.lookup != LookupKind::kNone || traits.elements == ResultElements::kPart;
}

double MovedBytes(const Graph& graph, const Node& node, const Rule& rule,
                  std::span<const Block> blocks, bool backward) {
  bool rows = !backward && ReadsRows(TraitsOf(node.op));
  double results = 0, operands = 0;
  for (size_t r = 0; r < node.results.size(); ++r)
    results += BytesOf(graph, node.results[r], rule, rule.results[r], blocks);
  for (size_t o = 0; o < node.operands.size(); ++o) {
    double bytes = BytesOf(graph, node.operands[o], rule, rule.operands[o], blocks);
    operands += o == 0 && rows ? std::min(bytes, results) : bytes;
  }
  return operands + results;
}

}  // namespace heddle
