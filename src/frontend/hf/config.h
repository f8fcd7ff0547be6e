// Loads a model from the `config.json` that Hugging Face stores beside its weights.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "frontend/import_options.h"
#include "graph/graph.h"

namespace heddle {

// Builds a member of a built-in family (frontend/families/) according to `model_type`: gpt2, llama, mistral, qwen2,
// mixtral, gpt_neox, opt, bert, t5 or vit. Every key of the file is used, is known not to change what a training step
// computes, or is refused with its value; unknown keys are refused. A missing key has the default of transformers.
// `options.dims` may give `batch` (default 8), `seq` (default: what the model allows, up to 2048) and further keys of
// the family. Throws an InputError of one line with file, key and value.
Graph LoadHfConfig(const std::string& path, const ImportOptions& options);

// The same from the text of such a file. `path` names it in errors and in the graph.
Graph ParseHfConfig(std::string_view text, const std::string& path, const ImportOptions& options);

// The keys of such a text that do not change what a training step computes, with the reasons. Throws as ParseHfConfig
// does.
std::map<std::string, std::string, std::less<>> PassedOverKeys(std::string_view text,
                                                               const std::string& path,
                                                               const ImportOptions& options);

}  // namespace heddle
