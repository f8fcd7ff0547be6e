// Finds GELU in its exact and its tanh form, and SiLU.
#include <cmath>

#include "frontend/fuse_passes.h"

namespace heddle {
namespace {

struct Match {
  ValueId x;
  std::vector<NodeId> nodes;
};

void Append(std::vector<NodeId>* nodes, const std::vector<NodeId>& more) {
  nodes->insert(nodes->end(), more.begin(), more.end());
}

// value = 1 + erf(x / sqrt 2)
std::optional<Match> MatchErf(const Rewriter& rw, ValueId value) {
  std::optional<Shifted> shift = MatchShift(rw, value);
  if (!shift || shift->offset != 1) return std::nullopt;
  std::optional<NodeId> erf = rw.Producer(shift->x, "Erf");
  if (!erf) return std::nullopt;
  FlatProduct inner = Flatten(rw, rw.Operand(*erf, 0));
  if (inner.factors.size() != 1 || !Near(inner.scale, std::sqrt(0.5))) return std::nullopt;
  Match match{inner.factors[0], {shift->node, *erf}};
  Append(&match.nodes, inner.nodes);
  return match;
}

// value = 0.044715 x^3
std::optional<Match> MatchCube(const Rewriter& rw, ValueId value) {
  FlatProduct product = Flatten(rw, value);
  if (!Near(product.scale, 0.044715)) return std::nullopt;
  if (product.factors.size() == 3 && product.factors[0] == product.factors[1] &&
      product.factors[1] == product.factors[2]) {
    return Match{product.factors[0], product.nodes};
  }
  if (product.factors.size() != 1) return std::nullopt;
  std::optional<NodeId> power = rw.Producer(product.factors[0], "Pow");
  if (!power || rw.Splat(rw.Operand(*power, 1)) != 3.0) return std::nullopt;
  Match match{rw.Operand(*power, 0), product.nodes};
  match.nodes.push_back(*power);
  return match;
}

// value = 1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))
std::optional<Match> MatchTanh(const Rewriter& rw, ValueId value) {
  std::optional<Shifted> shift = MatchShift(rw, value);
  if (!shift || shift->offset != 1) return std::nullopt;
  std::optional<NodeId> tanh = rw.Producer(shift->x, "Tanh");
  if (!tanh) return std::nullopt;
  FlatProduct inner = Flatten(rw, rw.Operand(*tanh, 0));
  if (inner.factors.size() != 1 || !Near(inner.scale, std::sqrt(2 / M_PI))) return std::nullopt;
  std::optional<NodeId> sum = rw.Producer(inner.factors[0], "Add");
  if (!sum) return std::nullopt;
  for (size_t side : {0, 1}) {
    std::optional<Match> cube = MatchCube(rw, rw.Operand(*sum, side));
    if (!cube || cube->x != rw.Operand(*sum, 1 - side)) continue;
    Append(&cube->nodes, {shift->node, *tanh, *sum});
    Append(&cube->nodes, inner.nodes);
    return cube;
  }
  return std::nullopt;
}

std::optional<Match> MatchSigmoid(const Rewriter& rw, ValueId value) {
  std::optional<NodeId> sigmoid = rw.Producer(value, "Sigmoid");
  if (!sigmoid) return std::nullopt;
  return Match{rw.Operand(*sigmoid, 0), {*sigmoid}};
}

struct Form {
  std::optional<Match> (*match)(const Rewriter&, ValueId);
  double scale;  // scale of the product with x
  std::string_view op;
  std::string_view approximate;
};

}  // namespace

Graph FuseActivations(Graph graph) {
  static constexpr Form kForms[] = {
      {MatchErf, 0.5, "Gelu", "none"},
      {MatchTanh, 0.5, "Gelu", "tanh"},
      {MatchSigmoid, 1, "Silu", ""},
  };
  Rewriter rw(std::move(graph));
  for (NodeId id : rw.Nodes()) {
    ValueId result = rw.node(id).results[0];
    if (rw.node(id).op != "Mul" || rw.Resolve(result) != result) continue;
    FlatProduct product = Flatten(rw, result);
    if (product.factors.size() != 2) continue;
    bool fused = false;
    for (const Form& form : kForms) {
      for (size_t side = 0; side < 2 && !fused; ++side) {
        std::optional<Match> match = form.match(rw, product.factors[side]);
        if (!match || match->x != product.factors[1 - side] || product.scale != form.scale)
          continue;
        Append(&match->nodes, product.nodes);
        if (!rw.Closed(match->nodes, id) || rw.value(match->x).type != rw.value(result).type)
          continue;
        Attributes attributes;
        if (!form.approximate.empty()) attributes["approximate"] = std::string(form.approximate);
        rw.Replace(result, rw.Add(id, form.op, std::move(attributes), {match->x}));
        fused = true;
      }
      if (fused) break;
    }
  }
  return rw.Finish();
}

}  // namespace heddle
