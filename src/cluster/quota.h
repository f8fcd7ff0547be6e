// Whether a quota of processor time holds this process down: control groups (cgroups, version 1 and 2) count how often.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// Where the counts of a process's groups, and of those that hold them, may lie, of /proc/self/cgroup.
std::vector<std::string> QuotaFiles(std::string_view cgroup);

// How often quotas have stopped the groups of this process so far; nothing where no count can be read.
std::optional<int64_t> TimesThrottled();

}  // namespace heddle
