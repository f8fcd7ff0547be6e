#include "ops/dim_part.h"

#include "base/integers.h"

namespace heddle {
namespace {

int64_t SizeOf(const Rule& rule, int factor) { return rule.factors[ToSize(factor)].size; }

// The part within a factor that has so many elements outside of it in the dimension, and inside of it.
std::optional<DimPart> WholeIn(const DimPart& part, int64_t before, int64_t size, int64_t after) {
  if (part.outer % before != 0 || part.inner % after != 0) return std::nullopt;
  DimPart inside{part.outer / before, part.size, part.inner / after};
  if (inside.outer * inside.size * inside.inner != size) return std::nullopt;
  return inside;
}

std::optional<DimPart> OutermostIn(const DimPart& part, int64_t before, int64_t size) {
  if (part.outer % before != 0 || size % (part.outer / before) != 0) return std::nullopt;
  int64_t outer = part.outer / before;
  int64_t rest = size / outer;  // of the factor, from where the part begins
  if (rest == 1) return std::nullopt;
  if (rest % part.size == 0) return DimPart{outer, part.size, rest / part.size};
  if (part.size % rest == 0) return DimPart{outer, rest, 1};
  return std::nullopt;
}

}  // namespace

std::optional<FactorPart> FindInProduct(const Rule& rule, const Product& product,
                                        const DimPart& part, PartFit fit) {
  int64_t before = 1, after = 1;
  for (int f : product) after *= SizeOf(rule, f);
  // Without elements nothing says where the part lies, unless it is all of a dimension of one factor.
  if (after == 0 && product.size() == 1 && part == DimPart{1, 0, 1}) {
    return FactorPart{product[0], part};
  }
  if (after == 0) return std::nullopt;
  for (int f : product) {
    int64_t size = SizeOf(rule, f);
    after /= size;
    std::optional<DimPart> inside = fit == PartFit::kWhole ? WholeIn(part, before, size, after)
                                                           : OutermostIn(part, before, size);
    if (inside) return FactorPart{f, *inside};
    before *= size;
  }
  return std::nullopt;
}

std::optional<DimPart> InDimension(const Rule& rule, const Product& product, int factor,
                                   const DimPart& part) {
  DimPart whole = part;
  bool seen = false;
  for (int f : product) {
    if (f == factor) {
      seen = true;
    } else {
      (seen ? whole.inner : whole.outer) *= SizeOf(rule, f);
    }
  }
  if (!seen) return std::nullopt;
  return whole;
}

}  // namespace heddle
