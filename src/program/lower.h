// Graph + plan -> program. See program.h for what comes out.
#pragma once

#include "program/program.h"

namespace heddle {

// The plan must be sound (Verify). Throws InputError where the plan's schedule refuses its shape, or the model
// forbids micro-batches.
// With a mask, what is kept of each shard is what the mask says; without, the share that the plan says.
Program Lower(const Model& model, const Plan& plan, const Mask* mask = nullptr);

// The same without a mask, of a model that is in the plan's compute type already (WithComputeType): where many plans of one
// model are lowered, it is brought to that type once.
Program LowerConverted(const Model& model, const Plan& plan);

// The forward half of the same step alone, up to the report of the loss: nothing is kept for backward, no gradient
// reaches anything, no group is trained. Stages have the groups and Locals of Lower's, by the same numbers, so that what
// holds the weights of one program serves the other.
Program LowerForward(const Model& model, const Plan& plan, const Mask* mask = nullptr);

}  // namespace heddle
