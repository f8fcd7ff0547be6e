// Formats of models: the seam between MODEL arguments (load.h) and what makes graphs of them.
//
//   const FormatDef* format = FindFormat("gpt2.onnx");  // nullptr: no format has it
//   Graph graph = format->load("gpt2.onnx", options);
//
// Deterministic, no shared state, any thread. A new format is a folder (or a file) with a function that returns its
// FormatDef, declared in formats.h and listed in format.cc: loading, help, errors and plan files read that list.
// A format of files with calls of ops decodes them to a ModelFile and has an Importer do the rest (import/).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "frontend/import_options.h"
#include "graph/graph.h"

namespace heddle {

// How sure a format is that a MODEL argument is its own. Content is surer than a name.
enum class Recognition : uint8_t { kNo, kByName, kByContent };

struct FormatDef {
  std::string_view name;
  std::string_view help;  // what MODEL is then, in the help of commands: "a .heddle file"
  std::string_view file;  // the files in errors: ".heddle"; empty where MODEL names no file
  // Must not throw; whatever is at that path, it may be missing or no regular file.
  Recognition (*recognise)(const std::string& model);
  // Called only where `recognise` said so. The graph is sound, every type follows from its rule, its rewrites have run
  // (fuse.h), and what options.frozen names is a constant. Options that the format has no use for are refused. Throws
  // InputError naming file, place, value and remedy.
  Graph (*load)(const std::string& model, const ImportOptions& options);
};

std::span<const FormatDef> AllFormats();

// The one that recognises it by content, else by name, and of several the first; null where none does.
const FormatDef* FindFormat(const std::string& model,
                            std::span<const FormatDef> formats = AllFormats());

}  // namespace heddle
