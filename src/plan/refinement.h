// Two readings of one dimension, such as 768/tp and 12/tp*64, in parts that both have: what neighbours meet in where one
// value is resharded (reshard.h).
#pragma once

#include <optional>

#include "plan/sharding.h"

namespace heddle {

// Of one dimension: the two shardings in the same parts.
struct RefinedDim {
  ShardedDim from, to;
};

// The common refinement. Nothing where the cuts of one lie across those of the other, or axes split across a cut.
std::optional<RefinedDim> CommonRefinement(const Mesh& mesh, const ShardedDim& from,
                                           const ShardedDim& to);

// The axes that split the outermost part of both readings first and evenly get a part of their own, so that they may stay
// where they are: of 96/dp * 2048/tp and 196608/dp,tp the part of dp, 32/dp. Is there one?
bool ShareOutermost(const Mesh& mesh, ShardedDim* from, ShardedDim* to);

// The parts alone.
ShardedDim WithoutAxes(ShardedDim dim);

}  // namespace heddle
