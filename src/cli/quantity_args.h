// Amounts given as flags: "40GiB", "12h". Throw InputError "FLAG TEXT: remedy".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

int64_t ParseBytes(std::string_view flag, const std::string& text);   // at least 1
double ParseSeconds(std::string_view flag, const std::string& text);  // above 0

}  // namespace heddle
