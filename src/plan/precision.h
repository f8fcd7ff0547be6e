// The model computed in another float type.
#pragma once

#include "plan/model.h"

namespace heddle {

// Every fp32 value as `compute` (bf16), casts to fp32 too; losses stay fp32, as their rules have it. Nodes and
// values keep their ids. Throws InputError where an op cannot take that type.
Model WithComputeType(Model model, DType compute);

}  // namespace heddle
