// Groups the parameters of a stage. Parameters whose gradients are reduced over the same axes are neighbours in one flat
// tensor, in the order in which backward finishes them, up to the plan's bucket size (ZeRO 3: all of one block). A group,
// unless it is small, has at most as many bytes as all later ones together: no computation hides the reduction of the last
// group, so that one must be small.
#pragma once

#include "program/stage_builder.h"

namespace heddle {

// Fills stage.groups and the sources of the Locals of parameters.
void GroupParameters(const LoweringContext& context, StageId id, StageProgram& stage);

}  // namespace heddle
