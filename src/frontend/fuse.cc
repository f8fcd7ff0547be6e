#include "frontend/fuse.h"

#include <array>
#include <cmath>

#include "base/check.h"
#include "frontend/fuse_passes.h"

namespace heddle {

std::span<const Pass> CleanUpPasses() {
  static constexpr std::array<Pass, 2> kPasses = {{
      {"merge transposes", MergeTransposes},
      {"merge reshapes", MergeReshapes},
  }};
  return kPasses;
}

std::span<const Pass> FusionPasses() {
  static constexpr std::array<Pass, 5> kPasses = {{
      {"fuse activations", FuseActivations},
      {"fuse normalisations", FuseNorms},
      {"fuse attention", FuseAttention},
      {"merge transposes", MergeTransposes},
      {"fuse linear", FuseLinear},
  }};
  return kPasses;
}

std::span<const Pass> LayoutPasses() {
  static constexpr std::array<Pass, 2> kPasses = {{
      {"unflatten linear", UnflattenLinear},
      {"mark pieces", MarkPieces},
  }};
  return kPasses;
}

Graph RunPasses(Graph graph, std::span<const Pass> passes) {
  for (const Pass& pass : passes) {
    graph = pass.run(std::move(graph));
    std::vector<std::string> violations = Verify(graph);
    HEDDLE_CHECK(violations.empty(), "after {}: {}", pass.name, violations.front());
  }
  return graph;
}

FlatProduct Flatten(const Rewriter& rw, ValueId root) {
  // The element of a constant with one element.
  auto number = [&](ValueId id) -> std::optional<double> {
    if (ElementCount(rw.value(id).type.shape) != 1) return std::nullopt;
    return rw.Splat(id);
  };
  FlatProduct product;
  auto enter = [&](NodeId node) {
    // No pattern has more nodes, and a chain of squares would have exponentially many.
    constexpr size_t kMaxNodes = 8;
    if (product.nodes.size() == kMaxNodes) return false;
    std::vector<NodeId> nodes = product.nodes;
    nodes.push_back(node);
    if (!rw.Closed(nodes, nodes.front())) return false;
    product.nodes = std::move(nodes);
    return true;
  };
  std::vector<ValueId> open = {rw.Resolve(root)};
  while (!open.empty()) {
    ValueId at = open.back();
    open.pop_back();
    if (std::optional<double> scale = number(at)) {
      product.scale *= *scale;
      continue;
    }
    if (std::optional<NodeId> node = rw.Producer(at, "Mul"); node && enter(*node)) {
      open.push_back(rw.Operand(*node, 1));
      open.push_back(rw.Operand(*node, 0));
      continue;
    }
    if (std::optional<NodeId> node = rw.Producer(at, "Div")) {
      std::optional<double> divisor = number(rw.Operand(*node, 1));
      if (divisor && enter(*node)) {
        product.scale /= *divisor;
        open.push_back(rw.Operand(*node, 0));
        continue;
      }
    }
    product.factors.push_back(at);
  }
  return product;
}

std::optional<Shifted> MatchShift(const Rewriter& rw, ValueId value) {
  std::optional<NodeId> add = rw.Producer(value, "Add");
  if (!add) return std::nullopt;
  for (size_t side : {0, 1}) {
    if (std::optional<double> number = rw.Splat(rw.Operand(*add, side))) {
      return Shifted{rw.Operand(*add, 1 - side), *number, *add};
    }
  }
  return std::nullopt;
}

std::optional<Square> MatchSquare(const Rewriter& rw, ValueId value) {
  if (std::optional<NodeId> power = rw.Producer(value, "Pow")) {
    if (rw.Splat(rw.Operand(*power, 1)) == 2.0) return Square{rw.Operand(*power, 0), *power};
  }
  if (std::optional<NodeId> product = rw.Producer(value, "Mul")) {
    if (rw.Operand(*product, 0) == rw.Operand(*product, 1)) {
      return Square{rw.Operand(*product, 0), *product};
    }
  }
  return std::nullopt;
}

bool Near(double a, double b, double relative) {
  return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b));
}

}  // namespace heddle
