// Which unit of recomputation each Local of a stage is made with.
//
// A Local that forward makes for a segment of a unit that is recomputed is dropped and made again with that unit. A Local
// that several segments read belongs to the first of them in the order of forward; what is made outside of units, comes
// from another stage, or does not depend on the micro-batch is kept and belongs to none.
#pragma once

#include "program/program.h"

namespace heddle {

// Per Local; invalid: kept. O(inputs and outputs of all segments).
IdVector<LocalId, UnitId> FindRecomputeOwners(const StageProgram& stage);

}  // namespace heddle
