// A MODEL argument as a Graph.
#pragma once

#include <string>

#include "frontend/import_options.h"
#include "graph/graph.h"

namespace heddle {

// An `.onnx` file (also `.onnx.gz`) or a `.heddle` text. The graph is sound and every type follows from
// its rule. Throws InputError naming file, place, value and remedy.
Graph LoadModel(const std::string& model, const ImportOptions& options = {});

// Gives the graph the weights of a safetensors file, by name.
void LoadWeights(Graph& graph, const std::string& path);

}  // namespace heddle
