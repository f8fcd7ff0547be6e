// Transposes and reshapes in a row; products with weights as Linear.
#include "frontend/fuse_passes.h"

namespace heddle {
namespace {

bool IsIdentity(const std::vector<int64_t>& perm) {
  for (size_t d = 0; d < perm.size(); ++d) {
    if (perm[d] != static_cast<int64_t>(d)) return false;
  }
  return true;
}

bool IsParameter(const Rewriter& rw, ValueId id) {
  return rw.value(id).kind == ValueKind::kParameter;
}

}  // namespace

Graph MergeTransposes(Graph graph) {
  Rewriter rw(std::move(graph));
  for (NodeId id : rw.Nodes()) {
    if (rw.node(id).op != "Transpose") continue;
    std::vector<int64_t> outer = IntsAttr(rw.node(id).attributes, "perm");
    ValueId source = rw.Operand(id, 0);
    std::optional<NodeId> inner = rw.Producer(source, "Transpose");
    if (inner) {
      std::vector<int64_t> first = IntsAttr(rw.node(*inner).attributes, "perm");
      for (int64_t& axis : outer) axis = first[static_cast<size_t>(axis)];
      source = rw.Operand(*inner, 0);
    }
    ValueId result = rw.node(id).results[0];
    if (IsIdentity(outer)) {
      rw.Replace(result, source);
    } else if (inner) {
      rw.Replace(result, rw.Add(id, "Transpose", {{"perm", outer}}, {source}));
    }
  }
  return rw.Finish();
}

Graph MergeReshapes(Graph graph) {
  Rewriter rw(std::move(graph));
  for (NodeId id : rw.Nodes()) {
    if (rw.node(id).op != "Reshape") continue;
    ValueId source = rw.Operand(id, 0);
    std::optional<NodeId> inner = rw.Producer(source, "Reshape");
    if (inner) source = rw.Operand(*inner, 0);
    ValueId result = rw.node(id).results[0];
    if (rw.value(source).type == rw.value(result).type) {
      rw.Replace(result, source);
    } else if (inner) {
      rw.Replace(result, rw.Add(id, "Reshape", rw.node(id).attributes, {source}));
    }
  }
  return rw.Finish();
}

Graph FuseLinear(Graph graph) {
  Rewriter rw(std::move(graph));
  for (NodeId id : rw.Nodes()) {
    ValueId result = rw.node(id).results[0];
    if (rw.node(id).op == "MatMul") {
      ValueId weight = rw.Operand(id, 1);
      std::optional<NodeId> turned = rw.Producer(weight, "Transpose");
      if (turned && IntsAttr(rw.node(*turned).attributes, "perm") != std::vector<int64_t>{1, 0}) {
        continue;
      }
      if (turned) weight = rw.Operand(*turned, 0);
      if (!IsParameter(rw, weight) || rw.value(weight).type.shape.size() != 2) continue;
      rw.Replace(result, rw.Add(id, "Linear", {{"transpose_weight", int64_t{turned.has_value()}}},
                                {rw.Operand(id, 0), weight}));
    } else if (rw.node(id).op == "Add") {
      for (size_t side : {0, 1}) {
        std::optional<NodeId> product = rw.Producer(rw.Operand(id, side), "Linear");
        ValueId bias = rw.Operand(id, 1 - side);
        if (!product || rw.node(*product).operands.size() != 2 || !rw.Closed({*product}, id)) continue;
        const Shape& shape = rw.value(bias).type.shape;
        if (!IsParameter(rw, bias) || shape.size() != 1 ||
            shape[0] != rw.value(result).type.shape.back() ||
            rw.value(result).type != rw.value(rw.node(*product).results[0]).type) {
          continue;
        }
        rw.Replace(result, rw.Add(id, "Linear", rw.node(*product).attributes,
                                  {rw.Operand(*product, 0), rw.Operand(*product, 1), bias}));
        break;
      }
    }
  }
  return rw.Finish();
}

}  // namespace heddle
