// Where in a tensor a factor lies, so that a split can be followed from the node that gives a value to the node
// that reads it, whatever either calls its factors.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/rule.h"

namespace heddle {

// A dimension whose every term is outer * size * inner, the factor in the middle. Equal terms are one: three terms
// of 64 are 3 * 64.
struct SplitMark {
  struct Term {
    int64_t outer = 1, size = 1, inner = 1;
    bool operator==(const Term&) const = default;
  };
  size_t dim = 0;
  std::vector<Term> terms;
  bool operator==(const SplitMark&) const = default;
};

// Nothing where the tensor lacks the factor, or one of the terms does.
std::optional<SplitMark> MarkOf(const Rule& rule, const Dims& dims, int factor);

// Whether splitting either over `ranks` gives every rank the same elements.
bool SameSplit(const SplitMark& a, const SplitMark& b, int64_t ranks);

// Parallel, summed or in its expansion: a factor whose split gradients pass.
bool CanSplit(const Factor& factor);

bool HasContraction(const Rule& rule);
// Whether the op sums over a factor of the operand.
bool HasSummed(const Rule& rule, size_t operand);

// The factor by which a node goes on with an operand that arrives split: the one that is split alike, or else the
// outermost of that dimension (what arrives is exchanged), if it has enough for every rank; in a matrix product
// the largest, if none has. -1: none.
int FollowSplit(const Rule& rule, size_t operand, const SplitMark& arrives, int64_t ranks);

}  // namespace heddle
