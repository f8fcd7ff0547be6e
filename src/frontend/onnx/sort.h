// Sorts the nodes of an ONNX file.
#pragma once

#include <string_view>
#include <vector>

#include "frontend/import/model_file.h"

namespace heddle {

// The indices of the nodes in an order in which each comes after those it reads from. Nodes in such an order keep it.
// Throws an InputError where nothing produces an operand, a value is produced twice, or nodes form a cycle, which is
// printed.
std::vector<size_t> SortNodes(const ModelFile& model, std::string_view file);

}  // namespace heddle
