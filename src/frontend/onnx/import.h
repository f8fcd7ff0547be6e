// An ONNX file as a Graph.
//
//   Graph graph = ImportOnnx("gpt2.onnx", {.dims = {{"batch", 8}}});
//
// The file is decoded, its names checked, its nodes sorted if they are not, and every node mapped
// to ops of our own (import_ops_*.cc, one entry per ONNX op), whose rules give the types. What
// depends on constants alone is evaluated on the way; operands that shape the result (axes, sizes,
// bounds) must be constants by then and become attributes. Nodes that change nothing are left out.
//
// Trainable are the float initializers with more than one element, or used as a weight, except
// running statistics, rotary frequencies, constants that the exporter lifted, and what `frozen`
// names. The loss is the single output, or the only scalar float among several.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "frontend/import_options.h"
#include "graph/graph.h"

namespace heddle {

// Throws InputError for whatever is wrong with the file, naming file, node or value, and remedy.
// Takes about 30 us per node. The result passes VerifyModel; nothing is fused yet (frontend/load.h
// does that).
Graph ImportOnnx(const std::string& path, const ImportOptions& options);

// The same from memory; `file` is for messages and the graph's name, external data lies in
// `folder`.
Graph ImportOnnxBytes(std::string_view bytes, std::string_view file,
                      const std::filesystem::path& folder, const ImportOptions& options);

}  // namespace heddle
