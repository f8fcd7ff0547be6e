// Which halves a segment has: whether it has a backward, and which of its gradients wait for W.
#pragma once

#include <vector>

#include "program/stage_builder.h"

namespace heddle {

// `locals` are those of its stage. Inputs and outputs must have their gradients already.
void SetHalves(const LoweringContext& context, const Locals& locals, Segment& segment);

}  // namespace heddle
