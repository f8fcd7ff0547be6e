// Seconds of a clock that never goes back, from some moment on.
#pragma once

#include <chrono>
#include <ctime>

namespace heddle {

inline double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// That all threads of this process have been running.
inline double ProcessorSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace heddle
