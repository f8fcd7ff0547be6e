// The time of a step on a GPU by kind of kernel.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "program/kernel_time.h"

namespace heddle {

// `kernels` are those of `steps` steps that took `step_seconds` each. Time in no kernel is shown as idle.
std::string KernelTable(const std::vector<KernelTime>& kernels, int64_t steps, double step_seconds);
Json KernelJson(const std::vector<KernelTime>& kernels, int64_t steps);

}  // namespace heddle
