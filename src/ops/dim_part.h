// A part of a dimension, followed through the rules: from a dimension to the factor that holds it, and from the factor to
// the dimensions of other tensors. The batch (rebatch.h), the sequence, the splits of the expert's rules and those of
// expansions (plan/) are followed so.
//
//   tokens = batch x sequence, b = 8, s = 512 as one dimension of product {b, s}:
//   FindInProduct(rule, {b, s}, {1, 8, 512}, PartFit::kWhole)    factor b, all of it: {1, 8, 1}
//   InDimension(rule, {b, s}, s, {1, 512, 1})                    {8, 512, 1}
#pragma once

#include <cstdint>
#include <optional>

#include "ops/rule.h"

namespace heddle {

// Of a dimension, or factor, of size outer * size * inner: what is in the middle.
struct DimPart {
  int64_t outer = 1, size = 1, inner = 1;
  bool operator==(const DimPart&) const = default;
};

// A factor, and a part of it.
struct FactorPart {
  int factor = -1;
  DimPart part;
};

enum class PartFit : uint8_t {
  kWhole,      // the factor must hold all of the part
  kOutermost,  // where a reshape cuts the part, the factor that holds its outermost piece, if that is larger than 1
};

// The first factor that holds a part of the dimension that is this product. Nothing where there is none; of a dimension
// without elements, unless it is one factor and the part all of it.
std::optional<FactorPart> FindInProduct(const Rule& rule, const Product& product,
                                        const DimPart& part, PartFit fit);

// A part of a factor as a part of the dimension that is this product. Nothing where the product lacks the factor.
std::optional<DimPart> InDimension(const Rule& rule, const Product& product, int factor,
                                   const DimPart& part);

}  // namespace heddle
