// A MODEL argument as a Graph.
#pragma once

#include <string>

#include "frontend/import_options.h"
#include "graph/graph.h"

namespace heddle {

// Of any format (format.h): an `.onnx` file (also `.onnx.gz`), a `.heddle` text, a Hugging Face `config.json` (any
// `.json`) or a built-in model ("gpt3-175b", "gpt:layers=24,hidden=1024,heads=16"), of which `options.dims` are further
// keys. The graph is sound and every type follows from its rule. Throws InputError naming file, place, value and remedy.
Graph LoadModel(const std::string& model, const ImportOptions& options = {});

// Does it name a file of one of these formats, there or not?
bool IsModelFile(const std::string& model);

// What a MODEL argument may be, for the help of commands.
std::string ModelHelp();

// Gives the graph the weights of a safetensors file, by name.
void LoadWeights(Graph& graph, const std::string& path);

}  // namespace heddle
