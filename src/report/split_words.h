// What a node splits along an axis of its mesh, in the words of the field.
//
//   Linear  [batch, sequence, k] x [k, j]      i0 batch   i1 sequence   j columns   k rows (a sum)
//   Attention by heads, a Gather or loss by vocabulary, products with a parameter per expert by experts
#pragma once

#include <string>

#include "plan/model.h"
#include "plan/sequence.h"
#include "plan/sharding.h"

namespace heddle {

class SplitWords {
 public:
  // The model must outlive it. O(nodes).
  explicit SplitWords(const Model& model);

  // A choice of a Strategy: "batch", "tokens" (batch and sequence in one), "sequence", "heads", "columns", "rows",
  // "queries", "experts", "vocabulary", "width", of convolutions and their norms "in channels", "out channels" and
  // "channels", "partial sums"; "-": nothing.
  std::string Of(NodeId node, AxisChoice choice) const;

 private:
  std::string OfProduct(NodeId node, int factor) const;

  const Model& model_;
  SequenceInfo sequence_;
  int64_t vocabulary_ = 0;  // classes of the loss; 0: none
  NodeId head_;             // the product whose result the loss gets
};

// Is the node a normalisation that computes the statistics it normalises by?
bool ComputesStatistics(const Node& node);

// Does it have matrix products or convolutions, or read a parameter, or normalise?
bool Matters(const Model& model, NodeId node);

}  // namespace heddle
