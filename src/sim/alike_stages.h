// Finds stages that are alike, for example the chunks of an interleaved pipeline that contain one layer each.
#pragma once

#include "program/program.h"

namespace heddle {

// Whether devices at the same place of the two meshes hold, compute and reshard the same, with values of different
// layers. Buffers, segments and groups then have the same numbers and the same bytes on both stages. Messages between
// stages are not compared. The result may be false for stages that are alike, but it is never true for others.
bool AreAlike(const Program& program, const StageProgram& a, const StageProgram& b);

}  // namespace heddle
