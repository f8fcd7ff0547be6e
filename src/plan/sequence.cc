#include "plan/sequence.h"

#include <algorithm>

#include "base/integers.h"

namespace heddle {
namespace {

using Marks = std::vector<std::optional<SequencePart>>;

void Read(const Rule& rule, const Dims& dims, const Marks& marks, Marks& factors) {
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!marks[d] || dims[d].terms.size() != 1) continue;
    std::optional<FactorPart> found =
        FindInProduct(rule, dims[d].terms[0], *marks[d], PartFit::kOutermost);
    if (!found) continue;
    std::optional<SequencePart>& held = factors[ToSize(found->factor)];
    if (!held) held = found->part;
  }
}

Marks Write(const Rule& rule, const Dims& dims, const Marks& factors) {
  Marks marks(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].terms.size() != 1) continue;
    const Product& product = dims[d].terms[0];
    auto carries = [&](int f) { return factors[ToSize(f)].has_value(); };
    auto first = std::find_if(product.begin(), product.end(), carries);
    if (first != product.end())
      marks[d] = InDimension(rule, product, *first, *factors[ToSize(*first)]);
  }
  return marks;
}

}  // namespace

SequenceInfo FindSequence(const Graph& graph, const Rules& rules) {
  SequenceInfo info;
  std::vector<Marks> marks;
  for (const Value& value : graph.values) {
    const Shape& shape = value.type.shape;
    marks.emplace_back(shape.size());
    bool tokens =
        value.kind == ValueKind::kInput && !IsFloat(value.type.dtype) && shape.size() == 2;
    if (tokens && shape[1] > 1) {
      marks.back()[1] = SequencePart{1, shape[1], 1};
      info.found = true;
    }
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const Rule& rule = rules[n];
    Marks factors(rule.factors.size());
    for (size_t o = 0; o < node.operands.size(); ++o) {
      Read(rule, rule.operands[o], marks[node.operands[o].index()], factors);
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      marks[node.results[r].index()] = Write(rule, rule.results[r], factors);
    }
    info.factors.push_back(std::move(factors));
  }
  return info;
}

}  // namespace heddle
