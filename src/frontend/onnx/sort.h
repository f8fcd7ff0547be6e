// The order and the names of the nodes of an ONNX file.
#pragma once

#include <string_view>
#include <vector>

#include "frontend/onnx/decode.h"

namespace heddle {

// The indices of the nodes so that each comes after those it reads from; nodes already in such an
// order keep it. Throws InputError where an operand is produced by nothing, a value is produced
// twice, or nodes form a cycle, which is printed.
std::vector<size_t> SortNodes(const OnnxModel& model, std::string_view file);

// Throws one InputError that lists every op import does not know, with counts.
void CheckOpsKnown(const OnnxModel& model, std::string_view file);

}  // namespace heddle
