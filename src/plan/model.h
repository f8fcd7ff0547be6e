// What planning and lowering need to know of a model, found once.
//
// Nodes fall into *blocks*, in an order in which every value flows forward: the copies of folded chains, and
// single nodes outside them. Stages are ranges of blocks. Side nodes are in no block: every stage that reads them
// computes them for itself. They are made from parameters and constants alone (once per step, where they do not
// carry the batch), or from inputs and constants alone (masks, the number of labels).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fold/fold.h"
#include "graph/graph.h"
#include "ops/analysis.h"
#include "ops/rebatch.h"

namespace heddle {

struct ModelBlock {
  std::vector<NodeId> nodes;  // in topological order
  int chain = -1;             // of Folding::chains, or -1: a single node outside them
  int copy = -1;
};

struct Model {
  Graph graph;
  Rules rules;
  GradientFlow flow;
  std::vector<std::vector<NodeId>> readers;
  // Where the batch is; empty if it cannot be followed through the model, for the reason in `no_batch`.
  std::optional<BatchInfo> batch;
  std::string no_batch;
  Folding folding;
  std::vector<ModelBlock> blocks;
  std::vector<int> block_of;  // per node; -1: a side node
  std::vector<bool> once;     // per node: depends on no sample
};

Model Analyse(Graph graph);

// Samples per step; 0 where the batch cannot be followed.
int64_t BatchSize(const Model& model);

// The side nodes that a set of nodes reads, transitively, in order.
std::vector<NodeId> SideNodesOf(const Model& model, const std::vector<NodeId>& nodes);

// The rules at one of `microbatches` equal parts of the batch: the same factors, those of the batch smaller.
Rules MicroRules(const Model& model, int64_t microbatches);

// Values that are sums over the samples of a step. A micro-batch gives a term of each; what follows from them
// must be linear (the loss), or come from inputs alone (the number of labels) and then is completed at the
// start of the step, before anything reads it.
struct MicrobatchSums {
  std::vector<bool> term;  // per value: a micro-batch holds a term of it
  std::vector<bool>
      first;  // per value: completed at the start of the step (no longer a term for its readers)
};

// Throws InputError naming the node that forbids micro-batches: one that mixes samples in any other way.
// Statistics over the batch forbid them unless `local_statistics`.
MicrobatchSums FindMicrobatchSums(const Model& model, bool local_statistics);

}  // namespace heddle
