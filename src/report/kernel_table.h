// Where the time of a step goes on a GPU, by the kind of kernel.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "program/kernel_time.h"

namespace heddle {

// Kernels of `steps` steps that took `step_seconds` each. What no kernel accounts for is shown as idle.
std::string KernelTable(const std::vector<KernelTime>& kernels, int64_t steps, double step_seconds);
Json KernelJson(const std::vector<KernelTime>& kernels, int64_t steps);

}  // namespace heddle
