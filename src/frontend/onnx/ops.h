// The ops of the ONNX domain "" and how each is mapped to heddle's ops: one entry in a family's file (import_ops_*.cc).
//
//   {"Flatten", 1, 1, [](CallImport& n) {
//     const int64_t axis = n.Axis(n.Int("axis", 1), n.rank(0) + 1);
//     n.Return(n.Emit("Reshape", {{"shape", ...}}, {n.In(0)}));
//   }},
//
// Names, attributes, defaults and differences between opsets follow the ONNX standard and are used only in this folder.
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

// The op with this name; null where there is none.
const OpImport* FindOnnxOp(std::string_view name);
// All names, sorted, for documentation and tests.
std::vector<std::string_view> AllOnnxOps();

}  // namespace heddle
