// The numbers of a program, each kind a type of its own.
#pragma once

#include "base/id_vector.h"
#include "base/strong_id.h"

namespace heddle {

using StageId = StrongId<struct StageTag>;                    // of Program::stages
using TransferId = StrongId<struct TransferTag>;              // of Program::transfers
using TiedGroupId = StrongId<struct TiedGroupTag>;            // of Program::tied
using LocalId = StrongId<struct LocalTag>;                    // of StageProgram::locals
using SegmentId = StrongId<struct SegmentTag>;                // of StageProgram::segments
using ReshardStepId = StrongId<struct ReshardStepTag>;        // of StageProgram::steps
using ParameterGroupId = StrongId<struct ParameterGroupTag>;  // of StageProgram::groups
using FactorGradientId = StrongId<struct FactorGradientTag>;  // of StageProgram::factor_gradients
using SegmentInputId = StrongId<struct SegmentInputTag>;      // of Segment::inputs
using BlockId = StrongId<struct BlockTag>;                    // of Model::blocks
using UnitId = StrongId<struct UnitTag>;                      // of what is recomputed together
using BufferId = StrongId<struct BufferTag>;                  // of DeviceProgram::buffers
using VisitId = StrongId<struct VisitTag>;                    // of DeviceProgram::visits

}  // namespace heddle
