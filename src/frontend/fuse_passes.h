// The passes behind fuse.h, one file per family.
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

// A product taken apart: x * (0.5 * y) / 2 is 0.25 times {x, y}.
struct FlatProduct {
  double scale = 1;
  std::vector<ValueId> factors;
  std::vector<NodeId> nodes;  // the Mul and Div nodes it consists of
};

// Flattens the tree of Mul, and Div by a number, at a value. Besides the root only nodes that nothing
// outside the product reads are entered. Numbers are constants of one element: the product may have more
// dimensions than its factors.
FlatProduct Flatten(const Rewriter& rw, ValueId root);

// Add(x, number): x and the number.
struct Shifted {
  ValueId x;
  double offset;
  NodeId node;
};
std::optional<Shifted> MatchShift(const Rewriter& rw, ValueId value);

// x*x or x^2: x.
struct Square {
  ValueId x;
  NodeId node;
};
std::optional<Square> MatchSquare(const Rewriter& rw, ValueId value);

bool Near(double a, double b, double relative = 1e-4);

}  // namespace heddle
