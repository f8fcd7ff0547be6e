// Dimensions that are concatenations: what Split cuts, Concat joins, and a fused projection gives.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/rule.h"

namespace heddle {

// The terms of a dimension made of pieces: what can be split is their greatest common divisor j, the same
// block of every piece on each rank; what remains of each piece is whole. A fused QKV with 32, 8 and 8
// heads is (j a0)|(j)|(j). Names end in `suffix`.
std::vector<Product> Pieces(Rule& rule, std::span<const int64_t> sizes,
                            std::string_view suffix = "");

// Throws InputError unless the sizes, attribute `name`, are not negative and add up to `total`.
void RequireSum(std::string_view name, std::span<const int64_t> sizes, int64_t total);

}  // namespace heddle
