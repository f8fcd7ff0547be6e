// The memory of this machine, against what a run keeps on it.
#pragma once

#include "program/program.h"

namespace heddle {

double HostMemoryBytes();

// Weights, gradients and moments of all ranks that run on this machine, against its memory. Throws InputError.
void RequireMemory(const Program& program);

}  // namespace heddle
