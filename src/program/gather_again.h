// Which inputs of segments are gathered a second time for backward instead of being kept.
//
// With sequence parallelism a matrix product reads an operand that is gathered over the tokens. Keeping the gathered
// tensor for backward would take as much memory as without sequence parallelism. Each device keeps its own part anyway,
// so backward gathers it again (Korthikanti et al., arXiv 2205.05198, section 4.2.2). The same holds for keys and values
// under context parallelism.
#pragma once

#include "program/stage_builder.h"

namespace heddle {

// Sets SegmentInput::again for inputs of the main phase that are kept for backward and come from an all-gather, where all
// readers of the gathered value are such inputs of segments that are not recomputed, and no output of the segment is a view
// of the input.
void MarkGatheredAgain(const LoweringContext& context, StageBuild& build);

}  // namespace heddle
