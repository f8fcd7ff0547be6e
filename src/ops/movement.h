// Traits of ops that move elements: identities and origins (OpTraits::identity, OpTraits::origin).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/op.h"

namespace heddle {

// Whatever the attributes; where no dimension changes its place; where no element is left out between others.
bool IsAlwaysIdentity(const Attributes& attributes);
bool IsIdentityOfTranspose(const Attributes& attributes);
bool IsIdentityOfSlice(const Attributes& attributes);

using Origin = std::optional<std::vector<int64_t>>;

// Results begin where operand 0 does.
Origin OriginAtFront(const OpContext& c, size_t o, size_t r);
// Operand 0 chooses between the elements of the others.
Origin OriginOfChoice(const OpContext& c, size_t o, size_t r);
Origin OriginOfSlice(const OpContext& c, size_t o, size_t r);
Origin OriginOfSplit(const OpContext& c, size_t o, size_t r);
Origin OriginOfConcat(const OpContext& c, size_t o, size_t r);
Origin OriginOfPad(const OpContext& c, size_t o, size_t r);

}  // namespace heddle
