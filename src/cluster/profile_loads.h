// The part of a profile that `heddle calibrate` measured, as JSON.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "cluster/measured_times.h"

namespace heddle {

constexpr size_t kMaxProfileEntries = 4096;  // of a list, a curve, an axis

// Throws InputError "what: field: value: remedy": numbers are finite and above 0, sizes and ranks rise.
std::vector<LoadTimes> LoadsFromJson(const Json& json, std::string_view what);
Json ToJson(const std::vector<LoadTimes>& loads);

}  // namespace heddle
