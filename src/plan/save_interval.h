// How often to save.
#pragma once

#include <cmath>

namespace heddle {

// Young, 1974: the interval, in seconds, at which saving and doing steps again cost least together.
inline double YoungInterval(double save_seconds, double mtbf_seconds) {
  return std::sqrt(2 * save_seconds * mtbf_seconds);
}

}  // namespace heddle
