// Gradients that are computed from factors: which a stage's plan asks for, and where their factors come from.
#pragma once

#include "program/stage_builder.h"

namespace heddle {

// In the order of the nodes; segments and Locals are not known yet. Those that would be partial along no axis are left
// to their segments.
FactorGradients FindFactorGradients(const LoweringContext& context, StageId id);

// Fills in segments and Locals of stage.factor_gradients, once all segments are connected: operands and the gradient of
// the result, as the node reads and gets them, gathered over the axes. A value that several need is gathered once.
void ConnectFactorGradients(const LoweringContext& context, StageProgram& stage);

}  // namespace heddle
