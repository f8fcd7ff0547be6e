// Cuts a model into blocks (plan/model.h), in an order in which every value flows forward.
//
// The copies of folded chains and the single nodes outside them are the elements of a graph of their own. Nodes on a
// cycle through one copy (they read it and feed it) belong to that copy. A cycle through several copies has no order: the
// smallest chain on it is given up, so that its nodes are single ones again. What is left is ordered topologically; of
// several copies that could come next, the next one of the chain at work does. So an encoder comes before the decoder
// that reads its output, whichever of them folding found first.
//
// A single node follows what it reads as soon as possible. One that depends on no copy comes as late as possible: the
// embedding of a decoder is next to the decoder, and nothing carries its result through the stages of the encoder.
#pragma once

#include <vector>

#include "plan/model.h"

namespace heddle {

// Needs graph, readers and folding of the model; `side` says which nodes are in no block. O(nodes), for every chain that
// is given up.
std::vector<ModelBlock> PartitionIntoBlocks(const Model& model, const std::vector<bool>& side);

}  // namespace heddle
