// The format of a Hugging Face config.json.
#include "frontend/formats.h"
#include "frontend/fuse.h"
#include "frontend/hf/config.h"

namespace heddle {
namespace {

Graph LoadConfig(const std::string& path, const ImportOptions& options) {
  RequireFused(path, options);
  Graph graph = RunPasses(LoadHfConfig(path, options), LayoutPasses());
  Freeze(graph, options.frozen, path);
  return graph;
}

}  // namespace

FormatDef HfConfigFormat() {
  return {.name = "hf-config",
          .help = "a Hugging Face config.json",
          .file = "config.json",
          .recognise = [](const std::string& model) { return ByEnding(model, ".json"); },
          .load = LoadConfig};
}

}  // namespace heddle
