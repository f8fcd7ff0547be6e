// Graph + plan -> program. See program.h for what comes out.
#pragma once

#include "program/program.h"

namespace heddle {

// The plan must be sound (Verify). Throws InputError where the plan's schedule refuses its shape, or the model
// forbids micro-batches.
// With a mask, what is kept of each shard is what the mask says; without, the share that the plan says.
Program Lower(const Model& model, const Plan& plan, const Mask* mask = nullptr);

}  // namespace heddle
