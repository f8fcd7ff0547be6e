// The format of built-in families and published models, given by name or expression.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "frontend/families/built_in.h"
#include "frontend/formats.h"
#include "frontend/fuse.h"

namespace heddle {
namespace {

// `--dim batch=8` sets a key like any other.
Graph LoadBuiltIn(const std::string& model, const ImportOptions& options) {
  RequireFused(model, options);
  std::vector<KeyValue> overrides;
  std::vector<KeyValue> own;
  try {
    if (!options.dims.empty()) own = ParseExpression(model).values;
  } catch (const InputError& error) {
    ThrowInput("{}: {}", model, error.what());
  }
  for (const auto& [name, size] : options.dims) {
    overrides.emplace_back(name, fmt::format("{}", size));
    auto said = std::ranges::find(own, name, &KeyValue::first);
    if (said != own.end() && said->second != overrides.back().second) {
      ThrowInput("{}: --dim {}={}: the model expression also gives {}={}: remove one of them",
                 model, name, size, name, said->second);
    }
  }
  Graph graph = RunPasses(BuildModel(model, overrides), LayoutPasses());
  Freeze(graph, options.frozen, model);
  return graph;
}

}  // namespace

FormatDef BuiltInFormat() {
  return {.name = "built-in",
          .help = "a built-in such as gpt3-175b (see 'heddle models')",
          .file = "",
          .recognise =
              [](const std::string& model) {
                return IsBuiltIn(model) ? Recognition::kByName : Recognition::kNo;
              },
          .load = LoadBuiltIn};
}

}  // namespace heddle
