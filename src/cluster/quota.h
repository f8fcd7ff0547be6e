// Whether a CPU quota throttles this process, from the counts that control groups (cgroups, versions 1 and 2) keep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// The files that may have the counts for the process's groups and the groups above them, from the text of
// /proc/self/cgroup.
std::vector<std::string> QuotaFiles(std::string_view cgroup);

// How often quotas have throttled the groups of this process so far; empty where no count can be read.
std::optional<int64_t> TimesThrottled();

}  // namespace heddle
