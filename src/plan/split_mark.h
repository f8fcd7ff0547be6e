// Where a factor is in a tensor. A split is followed so from the producer of a value to its reader, whose rules number
// their factors each in their own way.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/dim_part.h"

namespace heddle {

// A dimension whose every term is outer * size * inner, the factor in the middle. Equal terms are one: three terms
// of 64 are 3 * 64.
struct SplitMark {
  size_t dim = 0;
  std::vector<DimPart> terms;
  bool operator==(const SplitMark&) const = default;
};

// Nothing where the tensor lacks the factor, or one of the terms does.
std::optional<SplitMark> MarkOf(const Rule& rule, const Dims& dims, int factor);

// Does every rank get the same elements, whichever of the two is split over `ranks`?
bool SameSplit(const SplitMark& a, const SplitMark& b, int64_t ranks);

// Can a factor be split so that gradients pass: parallel, summed, or in its expansion?
bool CanSplit(const Factor& factor);

bool HasContraction(const Rule& rule);
// Does the op sum over a factor of the operand?
bool HasSummed(const Rule& rule, size_t operand);

// The factor that a node splits when an operand arrives split: the factor that is split alike; else the outermost factor of
// that dimension, if it is large enough for every rank (the operand is resharded); else, in a matrix product, the largest.
// -1: none.
int FollowSplit(const Rule& rule, size_t operand, const SplitMark& arrives, int64_t ranks);

}  // namespace heddle
