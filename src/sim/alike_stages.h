// Stages alike: the chunks of an interleaved pipeline, say, that hold one layer each.
#pragma once

#include "program/program.h"

namespace heddle {

// Do devices at the same place of the two meshes hold, compute and reshard the same, with other layers' values? Buffers,
// segments and groups then have the same numbers and the same bytes on both stages. What the stages send and receive is
// not looked at. False may be said of stages that are alike after all; true is never said of others.
bool AreAlike(const Program& program, const StageProgram& a, const StageProgram& b);

}  // namespace heddle
