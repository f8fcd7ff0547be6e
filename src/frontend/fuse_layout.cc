// Merges consecutive transposes and reshapes, turns products with weights into Linear, and simplifies the ops around
// them.
#include <algorithm>
#include <numeric>

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
        if (!product || rw.node(*product).operands.size() != 2 || !rw.Closed({*product}, id))
          continue;
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

// Reshape [8,512,768] -> [4096,768], Linear, Reshape [4096,2304] -> [8,512,2304]: Linear needs neither reshape. The
// flattened value may also have other dimensions, such as heads: [8,512,12,64].
Graph UnflattenLinear(Graph graph) {
  Rewriter rw(std::move(graph));
  for (NodeId id : rw.Nodes()) {
    if (rw.node(id).op != "Reshape") continue;
    ValueId result = rw.node(id).results[0];
    std::optional<NodeId> linear = rw.Producer(rw.Operand(id, 0), "Linear");
    if (!linear || !rw.Closed({*linear}, id)) continue;
    std::optional<NodeId> flatten = rw.Producer(rw.Operand(*linear, 0), "Reshape");
    const Shape& flat = rw.value(rw.Operand(id, 0)).type.shape;
    Shape shape = rw.value(result).type.shape;
    if (!flatten || flat.size() != 2 || shape.size() <= 2 || shape.back() != flat.back()) continue;
    if (flat.back() == 0) continue;  // with no elements the other sizes are arbitrary
    shape.back() = rw.value(rw.Operand(*linear, 0)).type.shape.back();
    std::vector<ValueId> operands = rw.node(*linear).operands;
    operands[0] = rw.Operand(*flatten, 0);
    if (rw.value(operands[0]).type.shape != shape) {
      operands[0] = rw.Add(*linear, "Reshape", {{"shape", shape}}, {operands[0]});
    }
    rw.Replace(result, rw.Add(id, "Linear", rw.node(*linear).attributes, std::move(operands)));
  }
  return rw.Finish();
}

// A Linear that is read only by a Split along its features gets the attribute `pieces`. Pieces without a common divisor
// could not be split over devices together.
Graph MarkPieces(Graph graph) {
  std::vector<std::vector<NodeId>> readers = Readers(graph);
  for (const Node& split : graph.nodes) {
    if (split.op != "Split") continue;
    const Value& whole = graph.value(split.operands[0]);
    std::vector<int64_t> sizes = IntsAttr(split.attributes, "sizes");
    int64_t axis = IntAttr(split.attributes, "axis");
    auto rank = static_cast<int64_t>(whole.type.shape.size());
    if (!whole.producer.valid() || readers[split.operands[0].index()].size() != 1) continue;
    if (sizes.size() < 2 || (axis < 0 ? axis + rank : axis) != rank - 1) continue;
    bool common =
        std::accumulate(sizes.begin(), sizes.end(), int64_t{0}, std::gcd<int64_t, int64_t>) > 1;
    bool empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
    Node& linear = graph.nodes[whole.producer.index()];
    if (linear.op == "Linear" && common && !empty) linear.attributes["pieces"] = sizes;
  }
  return graph;
}

}  // namespace heddle
