#include "plan/sequence.h"

#include "base/integers.h"

namespace heddle {
namespace {

using Marks = std::vector<std::optional<SequencePart>>;

int64_t SizeOf(const Rule& rule, int factor) { return rule.factors[ToSize(factor)].size; }

// The first factor of a product that holds a piece of the sequence, and where in it.
void ReadProduct(const Rule& rule, const Product& product, const SequencePart& part,
                 Marks& factors) {
  int64_t before = 1;
  for (int f : product) {
    int64_t size = SizeOf(rule, f);
    if (size == 0) return;
    if (part.outer % before == 0 && size % (part.outer / before) == 0) {
      int64_t outer = part.outer / before;
      int64_t rest = size / outer;  // of the factor, from where the sequence begins
      std::optional<SequencePart> found;
      if (part.size % rest == 0) found = {outer, rest, 1};
      if (rest % part.size == 0) found = {outer, part.size, rest / part.size};
      if (rest > 1 && found) {
        std::optional<SequencePart>& held = factors[ToSize(f)];
        if (!held) held = found;
        return;
      }
    }
    before *= size;
  }
}

void Read(const Rule& rule, const Dims& dims, const Marks& marks, Marks& factors) {
  for (size_t d = 0; d < dims.size(); ++d) {
    if (marks[d] && dims[d].terms.size() == 1)
      ReadProduct(rule, dims[d].terms[0], *marks[d], factors);
  }
}

Marks Write(const Rule& rule, const Dims& dims, const Marks& factors) {
  Marks marks(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].terms.size() != 1) continue;
    int64_t before = 1;
    for (int f : dims[d].terms[0]) {
      std::optional<SequencePart>& mark = marks[d];
      const std::optional<SequencePart>& held = factors[ToSize(f)];
      if (mark) {
        mark->inner *= SizeOf(rule, f);
      } else if (held) {
        mark = held;
        mark->outer *= before;
      }
      before *= SizeOf(rule, f);
    }
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
