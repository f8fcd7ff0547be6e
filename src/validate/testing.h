// Helpers for the tests of this module.
#pragma once

#include <string_view>

#include "base/error.h"
#include "validate/published_runs.h"

namespace heddle {

// The bundled run with an id.
inline const PublishedRun& RunNamed(std::string_view id) {
  for (const PublishedRun& run : BundledRuns()) {
    if (run.id == id) return run;
  }
  ThrowInput("no run {}", id);
}

}  // namespace heddle
