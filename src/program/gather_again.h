// Which inputs of segments are gathered a second time for backward instead of being kept.
//
// With sequence parallelism a product reads what was gathered over the tokens. Kept as it was gathered it would be
// as large as without; the part that each device has of it is there anyway (Korthikanti et al., arXiv 2205.05198,
// section 4.2.2). The same holds of keys and values under context parallelism.
#pragma once

#include "program/stage_builder.h"

namespace heddle {

// Sets SegmentInput::again: of inputs of the main phase that are kept, made by an all-gather, and read by such inputs
// of segments that are not recomputed and by nobody else; of which no output of the segment is a view.
void MarkGatheredAgain(const LoweringContext& context, StageBuild& build);

}  // namespace heddle
