// Inside frontend/: the formats there are, and what they share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/format.h"

namespace heddle {

FormatDef OnnxFormat();
FormatDef TextFormat();
FormatDef HfConfigFormat();
FormatDef BuiltInFormat();

// kByName where the name of the file ends so.
Recognition ByEnding(std::string_view model, std::string_view ending);

// Parameters whose names match become constants; each pattern must match one.
void Freeze(Graph& graph, const std::vector<std::string>& patterns, const std::string& model);

// Refuses --no-fuse for a format whose models have nothing to fuse.
void RequireFused(const std::string& model, const ImportOptions& options);

}  // namespace heddle
