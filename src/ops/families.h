// The op families, in the order of the list. One file each.
#pragma once

#include <vector>

#include "ops/op.h"

namespace heddle {

std::vector<OpDef> ElementwiseOps();
std::vector<OpDef> ContractionOps();
std::vector<OpDef> ConvolutionOps();
std::vector<OpDef> NormalisationOps();
std::vector<OpDef> ReductionOps();
std::vector<OpDef> MovementOps();
std::vector<OpDef> IndexingOps();
std::vector<OpDef> LossOps();
std::vector<OpDef> RandomOps();

}  // namespace heddle
