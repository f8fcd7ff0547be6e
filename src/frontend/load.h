// Loads a MODEL argument as a graph.
#pragma once

#include <string>

#include "frontend/import_options.h"
#include "graph/graph.h"

namespace heddle {

// Loads a model of any format (format.h): an `.onnx` file (also `.onnx.gz`), a `.heddle` text, a Hugging Face
// `config.json` (any `.json`) or a built-in model ("gpt3-175b", "gpt:layers=24,hidden=1024,heads=16"), for which
// `options.dims` are further keys. The graph is sound and every type follows from its rule. Throws an InputError with
// file, place, value and remedy.
Graph LoadModel(const std::string& model, const ImportOptions& options = {});

// Whether the argument names a file of one of these formats. The file need not exist.
bool IsModelFile(const std::string& model);

// A description of MODEL arguments for the help of commands.
std::string ModelHelp();

// Sets the weights of the graph from a safetensors file, by name.
void LoadWeights(Graph& graph, const std::string& path);

}  // namespace heddle
