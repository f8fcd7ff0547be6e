// Finds normalisations that are written as separate ops:
//   RMSNorm    w * (x * (1 / sqrt(mean(x^2) + eps)))        or x / sqrt(...)
//   LayerNorm  ((x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps)) * w + b
#include "frontend/fuse_passes.h"

namespace heddle {
namespace {

// Matches a mean over the last dimension that is kept with size 1.
std::optional<NodeId> MatchMean(const Rewriter& rw, ValueId value) {
  std::optional<NodeId> mean = rw.Producer(value, "ReduceMean");
  if (!mean) return std::nullopt;
  std::vector<int64_t> axes = IntsAttr(rw.node(*mean).attributes, "axes");
  int64_t rank = static_cast<int64_t>(rw.value(rw.Operand(*mean, 0)).type.shape.size());
  bool last = axes.size() == 1 && (axes[0] == rank - 1 || axes[0] == -1);
  if (!last || IntAttr(rw.node(*mean).attributes, "keepdims", 1) == 0) return std::nullopt;
  return mean;
}

// A match of sqrt(mean(x^2) + eps).
struct Deviation {
  ValueId x;
  double epsilon;
  std::vector<NodeId> nodes;
};
std::optional<Deviation> MatchDeviation(const Rewriter& rw, ValueId value) {
  std::optional<NodeId> root = rw.Producer(value, "Sqrt");
  if (!root) return std::nullopt;
  std::optional<Shifted> shift = MatchShift(rw, rw.Operand(*root, 0));
  if (!shift) return std::nullopt;
  std::optional<NodeId> mean = MatchMean(rw, shift->x);
  if (!mean) return std::nullopt;
  std::optional<Square> square = MatchSquare(rw, rw.Operand(*mean, 0));
  if (!square) return std::nullopt;
  return Deviation{square->x, shift->offset, {*root, shift->node, *mean, square->node}};
}

// A match of x / sqrt(mean(x^2) + eps), as a division or a product with the reciprocal. `w` is a further factor, if
// any.
struct Normalised {
  Deviation deviation;
  std::optional<ValueId> weight;
};
std::optional<Normalised> MatchNormalised(const Rewriter& rw, ValueId value) {
  FlatProduct product = Flatten(rw, value);
  if (product.scale != 1 || product.factors.empty() || product.factors.size() > 3)
    return std::nullopt;
  for (size_t i = 0; i < product.factors.size(); ++i) {
    std::optional<Deviation> found;
    std::vector<ValueId> rest;
    for (size_t j = 0; j < product.factors.size(); ++j) {
      if (j != i) rest.push_back(product.factors[j]);
    }
    if (std::optional<NodeId> inverse = rw.Producer(product.factors[i], "Reciprocal")) {
      found = MatchDeviation(rw, rw.Operand(*inverse, 0));
      if (found) found->nodes.push_back(*inverse);
    } else if (std::optional<NodeId> quotient = rw.Producer(product.factors[i], "Div")) {
      found = MatchDeviation(rw, rw.Operand(*quotient, 1));
      if (found) {
        found->nodes.push_back(*quotient);
        ValueId dividend = rw.Operand(*quotient, 0);
        if (rw.Splat(dividend) != 1.0) rest.push_back(dividend);
      }
    }
    if (!found || rest.empty() || rest.size() > 2) continue;
    for (size_t x = 0; x < rest.size(); ++x) {
      if (rest[x] != found->x) continue;
      Normalised match{*found, std::nullopt};
      if (rest.size() == 2) match.weight = rest[1 - x];
      match.deviation.nodes.insert(match.deviation.nodes.end(), product.nodes.begin(),
                                   product.nodes.end());
      return match;
    }
  }
  return std::nullopt;
}

bool IsRow(const Rewriter& rw, ValueId id, int64_t size) {
  return rw.value(id).type.shape == Shape{size};
}

// Matches x - mean(x) and returns x.
std::optional<ValueId> MatchCentred(const Rewriter& rw, ValueId value, std::vector<NodeId>* nodes) {
  std::optional<NodeId> difference = rw.Producer(value, "Sub");
  if (!difference) return std::nullopt;
  std::optional<NodeId> mean = MatchMean(rw, rw.Operand(*difference, 1));
  if (!mean || rw.Operand(*mean, 0) != rw.Operand(*difference, 0)) return std::nullopt;
  nodes->push_back(*difference);
  nodes->push_back(*mean);
  return rw.Operand(*difference, 0);
}

void TryLayerNorm(Rewriter& rw, NodeId id) {
  ValueId result = rw.node(id).results[0];
  for (size_t side : {0, 1}) {
    ValueId bias = rw.Operand(id, side);
    std::optional<Normalised> norm = MatchNormalised(rw, rw.Operand(id, 1 - side));
    if (!norm || !norm->weight) continue;
    std::vector<NodeId> nodes = norm->deviation.nodes;
    std::optional<ValueId> x = MatchCentred(rw, norm->deviation.x, &nodes);
    int64_t size = rw.value(result).type.shape.back();
    if (!x || !IsRow(rw, bias, size) || !IsRow(rw, *norm->weight, size) || !rw.Closed(nodes, id) ||
        rw.value(*x).type != rw.value(result).type) {
      continue;
    }
    rw.Replace(result, rw.Add(id, "LayerNorm",
                              {{"axis", int64_t{-1}}, {"epsilon", norm->deviation.epsilon}},
                              {*x, *norm->weight, bias}));
    return;
  }
}

void TryRMSNorm(Rewriter& rw, NodeId id) {
  ValueId result = rw.node(id).results[0];
  std::optional<Normalised> norm = MatchNormalised(rw, result);
  if (!norm || !norm->weight || !rw.Closed(norm->deviation.nodes, id)) return;
  ValueId x = norm->deviation.x;
  if (rw.value(x).type != rw.value(result).type ||
      !IsRow(rw, *norm->weight, rw.value(x).type.shape.back())) {
    return;
  }
  rw.Replace(result,
             rw.Add(id, "RMSNorm", {{"axis", int64_t{-1}}, {"epsilon", norm->deviation.epsilon}},
                    {x, *norm->weight}));
}

}  // namespace

Graph FuseNorms(Graph graph) {
  Rewriter first(std::move(graph));
  for (NodeId id : first.Nodes()) {
    if (first.node(id).op == "Add" && !first.value(first.node(id).results[0]).type.shape.empty()) {
      TryLayerNorm(first, id);
    }
  }
  Rewriter second(first.Finish());
  for (NodeId id : second.Nodes()) {
    if (second.node(id).op == "Mul") TryRMSNorm(second, id);
  }
  return second.Finish();
}

}  // namespace heddle
