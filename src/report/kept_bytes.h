// The bytes that the nodes of a stage save in forward for backward, on the first device of its mesh.
//
// A storage counts once: for the node that makes it or, if it comes from another stage or a collective, for the first
// node that keeps it. Recomputed segments keep their inputs only.
#pragma once

#include <functional>

#include "program/program.h"

namespace heddle {

// Calls `add` with nodes of the program's model and their bytes for one micro-batch. O(nodes of the stage).
void AddKept(const Program& program, const StageProgram& stage,
             const std::function<void(NodeId, double)>& add);

}  // namespace heddle
