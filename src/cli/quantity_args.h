// Amounts and times as option values: "40GiB", "12h".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

// Throw InputError "FLAG TEXT: remedy".
int64_t ParseBytes(std::string_view flag, const std::string& text);   // 1 B to 1 EiB
double ParseSeconds(std::string_view flag, const std::string& text);  // above 0

// The mistake in an amount or a time, with its remedy. Empty if the text is valid.
std::string WrongBytes(const std::string& text);
std::string WrongSeconds(const std::string& text);

}  // namespace heddle
