// Standard input, output and error, which a shell may close (`<&-`, `>&-`).
#pragma once

namespace heddle {

// Opens /dev/null for each closed standard file, so that no file that is opened later gets its number. Call it before
// any file is opened. Returns false if standard output cannot be written: then no command could show its result.
bool OpenStandardFiles();

}  // namespace heddle
