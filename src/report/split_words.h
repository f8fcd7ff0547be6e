// What a node splits along an axis of its mesh, in common terms.
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

  // The term for a choice of a Strategy: "batch", "tokens" (batch and sequence in one dimension), "sequence", "heads",
  // "columns", "rows", "queries", "experts", "vocabulary", "width", "partial sums"; for convolutions and their norms
  // "in channels", "out channels" and "channels"; "-" for no split.
  std::string Of(NodeId node, AxisChoice choice) const;

 private:
  std::string ProductWord(NodeId node, int factor) const;

  const Model& model_;
  SequenceInfo sequence_;
  int64_t vocabulary_ = 0;  // number of classes of the loss; 0: there is no such loss
  NodeId head_;             // the matrix product whose result the loss reads
};

// True if the node is a normalisation that computes the statistics itself.
bool ComputesStatistics(const Node& node);

// True if the node is a matrix product, a convolution or a normalisation, or reads a parameter.
bool Matters(const Model& model, NodeId node);

}  // namespace heddle
