// The passes that fuse.h lists, one file per family.
#pragma once

#include <optional>
#include <vector>

#include "frontend/rewriter.h"

namespace heddle {

Graph MergeTransposes(Graph graph);
Graph MergeReshapes(Graph graph);
Graph FuseLinear(Graph graph);
Graph FuseActivations(Graph graph);
Graph FuseNorms(Graph graph);
Graph FuseAttention(Graph graph);
Graph UnflattenLinear(Graph graph);
Graph MarkPieces(Graph graph);

// A flattened product: x * (0.5 * y) / 2 is 0.25 times {x, y}.
struct FlatProduct {
  double scale = 1;
  std::vector<ValueId> factors;
  std::vector<NodeId> nodes;  // the Mul and Div nodes it consists of
};

// Flattens the tree of Mul, and of Div by a number, that ends at a value. Nodes other than the root are included only
// if nothing outside of the product reads them. Numbers are constants of one element; the product may have more
// dimensions than its factors.
FlatProduct Flatten(const Rewriter& rw, ValueId root);

// A match of Add(x, number).
struct Shifted {
  ValueId x;
  double offset;
  NodeId node;
};
std::optional<Shifted> MatchShift(const Rewriter& rw, ValueId value);

// A match of x*x or x^2.
struct Square {
  ValueId x;
  NodeId node;
};
std::optional<Square> MatchSquare(const Rewriter& rw, ValueId value);

bool Near(double a, double b, double relative = 1e-4);

}  // namespace heddle
