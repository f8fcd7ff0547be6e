#include "ops/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/checked_math.h"
#include "base/error.h"
#include "ops/spec.h"

namespace heddle {

std::vector<Product> Pieces(Rule& rule, std::span<const int64_t> sizes, std::string_view suffix) {
  int64_t divisor = 0;
  for (int64_t size : sizes) divisor = std::gcd(divisor, size);
  bool splits = divisor > 1 && std::find(sizes.begin(), sizes.end(), 0) == sizes.end();
  Product shared;
  if (splits) shared = AddFactor(rule, fmt::format("j{}", suffix), divisor, FactorKind::kParallel);
  std::vector<Product> pieces;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Product piece = shared;
    Product rest = AddFactor(rule, fmt::format("a{}{}", i, suffix),
                             splits ? sizes[i] / divisor : sizes[i], FactorKind::kWhole);
    piece.insert(piece.end(), rest.begin(), rest.end());
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

void RequireSum(std::string_view name, std::span<const int64_t> sizes, int64_t total) {
  int64_t sum = 0;
  for (int64_t size : sizes) {
    if (size < 0) ThrowInput("{} has {}", name, size);
    sum = CheckedAdd(sum, size, fmt::format("the sum of {}", name));
  }
  if (sizes.empty() || sum != total) {
    ThrowInput("{} {} do not add up to {}", name, ToString(Shape(sizes.begin(), sizes.end())),
               total);
  }
}

}  // namespace heddle
