// What the nodes of a stage keep from forward for backward, on the first device of its mesh.
//
// A storage counts once: on the account of the node that makes it, or, where it comes from another stage or out of a
// collective, of the first node that keeps it. What is recomputed keeps what it starts from.
#pragma once

#include <functional>

#include "program/program.h"

namespace heddle {

// Calls `add` with nodes of the program's model and bytes of one micro-batch. O(nodes of the stage).
void AddKept(const Program& program, const StageProgram& stage,
             const std::function<void(NodeId, double)>& add);

}  // namespace heddle
