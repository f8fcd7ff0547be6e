// The format of heddle's own text (graph/text.h).
#include "base/error.h"
#include "base/file.h"
#include "frontend/formats.h"
#include "frontend/rewriter.h"
#include "graph/text.h"
#include "ops/op.h"

namespace heddle {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{1} << 30;

Graph LoadText(const std::string& path, const ImportOptions& options) {
  if (!options.dims.empty()) {
    ThrowInput("{}: --dim {}: a .heddle file has no symbolic dimensions", path,
               options.dims.begin()->first);
  }
  if (!options.fuse)
    ThrowInput("{}: --no-fuse: a .heddle file is never fused; remove the option", path);
  Graph graph = FromText(ReadFile(path, kMaxTextBytes), path);
  try {
    CheckTypes(graph);
  } catch (const InputError& error) {
    ThrowInput("{}: {}", path, error.what());
  }
  if (std::vector<std::string> wrong = VerifyModel(graph); !wrong.empty()) {
    ThrowInput("{}: {}", path, wrong.front());
  }
  Freeze(graph, options.frozen, path);
  return DropDead(std::move(graph));
}

}  // namespace

FormatDef TextFormat() {
  return {.name = "heddle",
          .help = "a .heddle file",
          .file = ".heddle",
          .recognise = [](const std::string& model) { return ByEnding(model, ".heddle"); },
          .load = LoadText};
}

}  // namespace heddle
