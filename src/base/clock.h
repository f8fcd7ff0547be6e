// Seconds of a clock that never goes back, from some moment on.
#pragma once

#include <chrono>

namespace heddle {

inline double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace heddle
