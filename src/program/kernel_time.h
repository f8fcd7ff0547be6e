// The time of a kind of kernel on an accelerator, as an executor measured it.
#pragma once

#include <cstdint>
#include <string>

namespace heddle {

// All calls of the kernel of this name.
struct KernelTime {
  std::string name;
  int64_t count = 0;
  double seconds = 0;
};

}  // namespace heddle
