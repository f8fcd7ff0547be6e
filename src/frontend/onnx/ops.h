// The ops of ONNX, of the domain "", and how each becomes ours: one entry in a family's file (import_ops_*.cc).
//
//   {"Flatten", 1, 1, [](CallImport& n) {
//     const int64_t axis = n.Axis(n.Int("axis", 1), n.rank(0) + 1);
//     n.Return(n.Emit("Reshape", {{"shape", ...}}, {n.In(0)}));
//   }},
//
// Names, attributes, defaults and what opsets change are those of the ONNX standard, and stay in this folder.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "frontend/import/call_import.h"

namespace heddle {

// The families, one file each.
std::span<const OpImport> OnnxElementwiseOps();
std::span<const OpImport> OnnxConstantOps();
std::span<const OpImport> OnnxMovementOps();
std::span<const OpImport> OnnxIndexingOps();
std::span<const OpImport> OnnxContractionOps();
std::span<const OpImport> OnnxPoolingOps();
std::span<const OpImport> OnnxNormalisationOps();
std::span<const OpImport> OnnxReductionOps();
std::span<const OpImport> OnnxSequenceOps();

// By name; null where there is none.
const OpImport* FindOnnxOp(std::string_view name);
// All names, sorted, for documentation and tests.
std::vector<std::string_view> AllOnnxOps();

}  // namespace heddle
