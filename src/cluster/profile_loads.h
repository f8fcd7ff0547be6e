// JSON for the part of a profile that `heddle calibrate` measures.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "cluster/measured_times.h"

namespace heddle {

// The largest number of entries of a list, curve or axis.
constexpr size_t kMaxProfileEntries = 4096;

// Throws an InputError "what: field: value: remedy". Numbers must be finite and above 0, sizes and numbers of ranks
// ascending.
std::vector<LoadTimes> LoadsFromJson(const Json& json, std::string_view what);
Json ToJson(const std::vector<LoadTimes>& loads);

}  // namespace heddle
