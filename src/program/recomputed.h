// Which nodes a policy of recomputation runs again before their backward.
#pragma once

#include "plan/plan.h"

namespace heddle {

// Full: all of a folded block. Selective: products of two activations (attention's scores), and what lies between two
// of them. The nodes of a block that are recomputed are recomputed together. Not for side nodes.
bool IsRecomputed(const Model& model, NodeId node, RecomputePolicy policy);

}  // namespace heddle
