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

Graph RunPasses(Graph graph, std::span<const Pass> passes) {
  for (const Pass& pass : passes) {
    graph = pass.run(std::move(graph));
    std::vector<std::string> violations = Verify(graph);
    HEDDLE_CHECK(violations.empty(), "after {}: {}", pass.name, violations.front());
  }
  return graph;
}

FlatProduct Flatten(const Rewriter& rw, ValueId root) {
  FlatProduct product;
  std::vector<ValueId> open = {rw.Resolve(root)};
  while (!open.empty()) {
    ValueId at = open.back();
    open.pop_back();
    if (std::optional<double> number = rw.Splat(at); number && rw.value(at).type.shape.empty()) {
      product.scale *= *number;
      continue;
    }
    std::optional<NodeId> node = rw.Producer(at, "Mul");
    std::optional<NodeId> quotient = rw.Producer(at, "Div");
    bool enter = product.nodes.empty();
    if (node && !enter) enter = rw.Closed({*node, product.nodes.back()}, product.nodes.back());
    if (node && enter) {
      product.nodes.push_back(*node);
      open.push_back(rw.Operand(*node, 1));
      open.push_back(rw.Operand(*node, 0));
      continue;
    }
    if (quotient && product.nodes.empty()) {
      if (std::optional<double> number = rw.Splat(rw.Operand(*quotient, 1))) {
        product.nodes.push_back(*quotient);
        product.scale /= *number;
        open.push_back(rw.Operand(*quotient, 0));
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
