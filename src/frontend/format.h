// Formats of models: the seam between MODEL arguments (load.h) and the code that builds graphs from them.
//
//   const FormatDef* format = FindFormat("gpt2.onnx");  // nullptr: no format has it
//   Graph graph = format->load("gpt2.onnx", options);
//
// Deterministic, without shared state, may be called from any thread. To add a format, write a folder or file with a
// function that returns its FormatDef, declare it in formats.h and list it in format.cc; loading, help, errors and plan
// files use that list. A format whose files contain calls of ops decodes them to a ModelFile and passes it to an
// Importer (import/).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "frontend/import_options.h"
#include "graph/graph.h"

namespace heddle {

// How a format recognises a MODEL argument. Recognition by content takes precedence over recognition by name.
enum class Recognition : uint8_t { kNo, kByName, kByContent };

struct FormatDef {
  std::string_view name;
  std::string_view help;  // describes MODEL in the help of commands: "a .heddle file"
  // Describes its files in errors: ".heddle"; empty where MODEL names no file.
  std::string_view file;
  // Must not throw. The path may be missing or not a regular file.
  Recognition (*recognise)(const std::string& model);
  // Called only for models that `recognise` accepts. The result is sound, every type follows from its rule, its
  // rewrites have run (fuse.h), and the parameters in options.frozen are constants. Options that the format does not
  // support are refused. Throws an InputError with file, place, value and remedy.
  Graph (*load)(const std::string& model, const ImportOptions& options);
};

std::span<const FormatDef> AllFormats();

// The first format that recognises the model by content, otherwise the first that does by name; null where none does.
const FormatDef* FindFormat(const std::string& model,
                            std::span<const FormatDef> formats = AllFormats());

}  // namespace heddle
