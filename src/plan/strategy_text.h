// Strategies as people read and write them: the axes that do something and what, in the mesh's order.
//
//   ToText(mesh, rule, {1, 0}) == "dp=i0 tp=j"       factors by name; axes that replicate are left out
//   "tp=partial0"                                     passes partial sums through linear set 0
#pragma once

#include <string>
#include <string_view>

#include "plan/sharding.h"

namespace heddle {

std::string ToText(const Mesh& mesh, const Rule& rule, const Strategy& strategy);

// The inverse. Throws InputError naming the word, with the names that are near, where there is no such axis, factor
// or linear set, an axis is given twice, or the factor is whole.
Strategy StrategyFromText(const Mesh& mesh, const Rule& rule, std::string_view text);

}  // namespace heddle
