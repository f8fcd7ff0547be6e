// Imports an ONNX file as a Graph.
//
//   Graph graph = ImportOnnx("gpt2.onnx", {.dims = {{"batch", 8}}});
//
// The file is decoded, its names are checked, its nodes are sorted where necessary, and every node is mapped to
// heddle's ops (import_ops_*.cc, one entry per ONNX op), whose rules give the types. Nodes that depend only on
// constants are evaluated. Operands that determine the shape of a result (axes, sizes, bounds) must then be constants
// and become attributes. Nodes that change nothing are left out.
//
// Trained are the float initializers that have more than one element or are used as weights, except running statistics,
// rotary frequencies, constants that the exporter lifted, and those that `frozen` names. The loss is the single output,
// or the only scalar float among several.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "frontend/import_options.h"
#include "graph/graph.h"

namespace heddle {

// Throws an InputError with file, node or value, and remedy for every problem of the file. Takes about 30 us per node.
// The result passes VerifyModel; fusion runs later (frontend/load.h).
Graph ImportOnnx(const std::string& path, const ImportOptions& options);

// The same from memory. `file` is used in messages and for the graph's name; external data is in `folder`.
Graph ImportOnnxBytes(std::string_view bytes, std::string_view file,
                      const std::filesystem::path& folder, const ImportOptions& options);

}  // namespace heddle
