// The parameters of a stage, grouped: those whose gradients are reduced over the same axes lie together, in the
// order in which backward finishes them, up to the plan's bucket size (ZeRO 3: all of one block). No group but a small one
// has more than are still to come: nothing is computed while the last one is reduced, so it had better be small.
#pragma once

#include "program/stage_builder.h"

namespace heddle {

// Fills stage.groups and the sources of the Locals of parameters.
void GroupParameters(const LoweringContext& context, StageId id, StageProgram& stage);

}  // namespace heddle
