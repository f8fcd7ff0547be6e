// A model from the `config.json` that Hugging Face puts beside its weights.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "frontend/import_options.h"
#include "graph/graph.h"

namespace heddle {

// By its `model_type`: gpt2, llama, mistral, qwen2, mixtral, gpt_neox, opt, bert, t5 and vit become
// members of the built-in families (frontend/families/). Every key of the file is used, is known not to
// change what a training step computes, or is refused with its value; so is a key that nobody knows.
// A missing key means what transformers means by it. `options.dims` may give `batch` (8 otherwise),
// `seq` (otherwise what the model allows, up to 2048) and further keys of the family. Throws
// InputError, one line with file, key and value.
Graph LoadHfConfig(const std::string& path, const ImportOptions& options);

// From the text of such a file; `path` names it in errors and in the graph.
Graph ParseHfConfig(std::string_view text, const std::string& path, const ImportOptions& options);

// The keys of such a text that do not change what a training step computes, with the reasons. Throws like
// ParseHfConfig.
std::map<std::string, std::string, std::less<>> PassedOverKeys(std::string_view text,
                                                               const std::string& path,
                                                               const ImportOptions& options);

}  // namespace heddle
