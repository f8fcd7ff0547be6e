#include "ops/rule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/small_vector.h"

namespace heddle {
namespace {

std::string DimsText(const Rule& rule, const Dims& dims) {
  std::vector<std::string> parts;
  for (const Dim& dim : dims) {
    std::vector<std::string> terms;
    for (const Product& term : dim.terms) {
      std::vector<std::string_view> names;
      for (int f : term) names.push_back(rule.factors[static_cast<size_t>(f)].name);
      terms.push_back(names.empty()       ? "1"
                      : names.size() == 1 ? std::string(names[0])
                                          : fmt::format("({})", fmt::join(names, " ")));
    }
    parts.push_back(fmt::format("{}", fmt::join(terms, "|")));
  }
  return fmt::format("[{}]", fmt::join(parts, ","));
}

}  // namespace

Block FactorBlock(int64_t n, int64_t parts, int64_t index) {
  HEDDLE_CHECK(n >= 0 && parts >= 1 && index >= 0 && index < parts, "block {} of {} of {}", index,
               parts, n);
  int64_t size = n / parts + (n % parts != 0);
  if (size == 0 || index >= n / size + 1) return {n, n};  // sizes up to 2^63 - 1 do not overflow
  int64_t begin = index * size;
  return {begin, begin + std::min(size, n - begin)};
}

std::vector<Block> WholeBlocks(const Rule& rule) {
  std::vector<Block> blocks;
  for (const Factor& factor : rule.factors) blocks.push_back({0, factor.size});
  return blocks;
}

namespace {

template <typename Sizes>
Sizes LocalSizes(const Rule& rule, const Dims& dims, std::span<const Block> blocks) {
  HEDDLE_CHECK_EQ(blocks.size(), rule.factors.size());
  Sizes shape;
  for (const Dim& dim : dims) {
    int64_t size = 0;
    for (const Product& term : dim.terms) {
      int64_t product = 1;
      for (int f : term) product *= blocks[static_cast<size_t>(f)].size();
      size += product;
    }
    shape.push_back(size);
  }
  return shape;
}

}  // namespace

Shape LocalShape(const Rule& rule, const Dims& dims, std::span<const Block> blocks) {
  return LocalSizes<Shape>(rule, dims, blocks);
}

int64_t LocalElements(const Rule& rule, const Dims& dims, std::span<const Block> blocks) {
  auto sizes = LocalSizes<SmallVector<int64_t, 6>>(rule, dims, blocks);
  return ElementCount({sizes.data(), sizes.size()});
}

Shape GlobalShape(const Rule& rule, const Dims& dims) {
  return LocalShape(rule, dims, WholeBlocks(rule));
}

std::vector<TensorType> ResultTypes(const Rule& rule) {
  std::vector<TensorType> types;
  for (size_t r = 0; r < rule.results.size(); ++r) {
    types.push_back({rule.result_dtypes[r], GlobalShape(rule, rule.results[r])});
  }
  return types;
}

bool Has(const Dims& dims, int factor) {
  for (const Dim& dim : dims) {
    for (const Product& term : dim.terms) {
      if (std::find(term.begin(), term.end(), factor) != term.end()) return true;
    }
  }
  return false;
}

Work ForwardWork(const Rule& rule, std::span<const Block> blocks) {
  Work work;
  for (const WorkTerm& term : rule.work) {
    double flops = term.flops;
    for (int f : term.factors) flops *= static_cast<double>(blocks[static_cast<size_t>(f)].size());
    work.flops += flops;
    if (term.contraction) work.contraction_flops += flops;
  }
  return work;
}

std::string ToString(const Rule& rule) {
  std::vector<std::string> operands, results, kinds;
  for (const Dims& dims : rule.operands) operands.push_back(DimsText(rule, dims));
  for (const Dims& dims : rule.results) results.push_back(DimsText(rule, dims));
  static constexpr std::string_view kNames[] = {"parallel", "summed", "maxed", "expanded", "whole"};
  for (size_t kind = 0; kind < std::size(kNames); ++kind) {
    std::vector<std::string_view> names;
    for (const Factor& factor : rule.factors) {
      if (static_cast<size_t>(factor.kind) == kind) names.push_back(factor.name);
    }
    if (!names.empty()) kinds.push_back(fmt::format("{} {}", fmt::join(names, ","), kNames[kind]));
  }
  return fmt::format("{} -> {}   {}", fmt::join(operands, " x "), fmt::join(results, ", "),
                     fmt::join(kinds, "  "));
}

}  // namespace heddle
