// Whether the memory of this machine is enough for a run.
#pragma once

#include "program/program.h"

namespace heddle {

double HostMemoryBytes();

// Throws InputError where weights, gradients and moments of all ranks that run on this machine exceed its memory.
void RequireMemory(const Program& program);

}  // namespace heddle
