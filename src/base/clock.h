// Clocks: seconds on a monotonic clock, and processor time of the process.
#pragma once

#include <chrono>
#include <ctime>

namespace heddle {

inline double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Processor seconds that all threads of this process have used together.
inline double ProcessorSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace heddle
