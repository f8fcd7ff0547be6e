// The strategies of the expert's plan (plan/expert.h): one per node, by propagation in topological order.
#pragma once

#include <vector>

#include "plan/expert.h"

namespace heddle {

// The mesh of every stage, beginning at device 0.
Mesh ExpertMesh(const Degrees& degrees);

// Per node of the graph; the same wherever the node is computed. `stage_of` is per node, -1 for side nodes.
// Throws InputError where the model has nothing that a degree could split: no sequence, no experts.
std::vector<Strategy> ExpertStrategies(const Model& model, const Degrees& degrees, const Mesh& mesh,
                                       const std::vector<int>& stage_of);

}  // namespace heddle
