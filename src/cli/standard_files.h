// Standard input, output and error, as the shell may leave them closed (`<&-`, `>&-`).
#pragma once

namespace heddle {

// Opens /dev/null in place of standard files that are closed, so that no file opened later becomes one of them. Call it
// first of all. Returns whether standard output can be written: where it cannot, no command could show its result.
bool OpenStandardFiles();

}  // namespace heddle
