// For use inside frontend/: the list of formats, and their helpers.
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

// kByName where the file name has this ending.
Recognition ByEnding(std::string_view model, std::string_view ending);

// Turns the parameters whose names match into constants. Each pattern must match at least one.
void Freeze(Graph& graph, const std::vector<std::string>& patterns, const std::string& model);

// Refuses --no-fuse for a format whose models have nothing to fuse.
void RequireFused(const std::string& model, const ImportOptions& options);

}  // namespace heddle
