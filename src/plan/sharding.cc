#include "plan/sharding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/check.h"

namespace heddle {

int64_t SizeOf(const Parts& parts) {
  int64_t size = 1;
  for (const Part& part : parts) size *= part.size;
  return size;
}

namespace {

bool IsSplit(const Parts& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.axes != 0; });
}

int64_t SizeOf(const ShardedDim& dim) {
  int64_t size = 0;
  for (const Parts& term : dim.terms) size += SizeOf(term);
  return size;
}

// Whether two neighbours of a product are one part, and which:
//   6 * 4          24
//   6/dp * 4       24/dp where dp divides 6
//   2/dp * 6/tp    12/dp/tp where dp is 2: one index each, of which tp splits the rest
bool Merge(const Mesh& mesh, const Part& outer, const Part& inner, Part* merged) {
  int64_t outer_ranks = GroupSize(mesh, outer.axes), units = 1;
  bool shared = false;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (!Contains(outer.axes, a)) continue;
    units *= UnitsOf(mesh.axes[a]);
    shared = shared || !mesh.axes[a].shares.empty();
  }
  bool plain = outer.axes == 0 && inner.axes == 0;
  bool even = outer.axes != 0 && inner.axes == 0 && outer.size % units == 0;
  bool in_turn = outer.axes != 0 && inner.axes != 0 && outer.size == outer_ranks && !shared &&
                 static_cast<int>(std::bit_width(outer.axes)) <= std::countr_zero(inner.axes);
  if (!plain && !even && !in_turn) return false;
  *merged = {outer.size * inner.size, outer.axes | inner.axes};
  return true;
}

Parts Normalised(const Mesh& mesh, const Parts& parts) {
  Parts normal;
  for (const Part& part : parts) {
    Part next = part;
    for (size_t a = 0; a < mesh.axes.size(); ++a) {
      if (mesh.axes[a].size == 1) next.axes &= ~AxisSet(a);
    }
    if (next.size == 1 && next.axes == 0) continue;
    normal.push_back(next);
  }
  // Merging may make neighbours mergeable in turn; innermost first reaches the fixed point of these rules.
  for (size_t i = normal.size(); i-- > 1;) {
    Part merged;
    if (!Merge(mesh, normal[i - 1], normal[i], &merged)) continue;
    normal[i - 1] = merged;
    normal.erase(normal.begin() + i, normal.begin() + i + 1);
  }
  return normal;
}

ShardedDim Normalised(const Mesh& mesh, const ShardedDim& dim) {
  ShardedDim normal;
  normal.terms.clear();
  for (const Parts& term : dim.terms) normal.terms.push_back(Normalised(mesh, term));
  bool split = std::any_of(normal.terms.begin(), normal.terms.end(), IsSplit);
  if (!split) return {{Normalised(mesh, Parts{{SizeOf(dim), 0}})}};
  bool equal = std::all_of(normal.terms.begin(), normal.terms.end(),
                           [&](const Parts& term) { return term == normal.terms[0]; });
  if (normal.terms.size() == 1 || !equal) return normal;
  // Three equal terms are a product of 3 and the term.
  Parts product = {{static_cast<int64_t>(normal.terms.size()), 0}};
  for (const Part& part : normal.terms[0]) product.push_back(part);
  return {{Normalised(mesh, product)}};
}

// The axes that split a factor.
AxisMask AxesOf(const Strategy& strategy, int factor) {
  AxisMask axes = 0;
  for (size_t a = 0; a < strategy.size(); ++a) {
    if (strategy[a].splits(factor)) axes |= AxisSet(a);
  }
  return axes;
}

Sharding SplitLike(const Rule& rule, const Dims& dims, const Strategy& strategy) {
  Sharding sharding;
  for (const Dim& dim : dims) {
    ShardedDim sharded;
    sharded.terms.clear();
    for (const Product& term : dim.terms) {
      Parts parts;
      for (int f : term)
        parts.push_back({rule.factors[static_cast<size_t>(f)].size, AxesOf(strategy, f)});
      sharded.terms.push_back(std::move(parts));
    }
    sharding.dims.push_back(std::move(sharded));
  }
  return sharding;
}

bool InSet(const Rule& rule, AxisChoice choice, size_t operand) {
  const std::vector<int>& set = rule.linear[static_cast<size_t>(choice.linear_set())];
  return std::find(set.begin(), set.end(), static_cast<int>(operand)) != set.end();
}

// Appends [begin, end), joined to what it continues.
void Append(Ranges& ranges, Block block) {
  if (block.size() == 0) return;
  if (!ranges.empty() && ranges.back().end == block.begin) {
    ranges.back().end = block.end;
  } else {
    ranges.push_back(block);
  }
}

Block BlockAlong(const MeshAxis& axis, int64_t size, int64_t index) {
  if (axis.shares.empty()) return FactorBlock(size, axis.size, index);
  int64_t sum = UnitsOf(axis);
  auto first = axis.shares.begin();
  int64_t before = std::accumulate(first, first + index, int64_t{0});
  return {size * before / sum, size * (before + first[index]) / sum};
}

Block BlockOf(const Mesh& mesh, const Part& part, const Position& position) {
  Block block{0, part.size};
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (!Contains(part.axes, a)) continue;
    Block inner = BlockAlong(mesh.axes[a], block.size(), position[a]);
    block = {block.begin + inner.begin, block.begin + inner.end};
  }
  return block;
}

}  // namespace

AxisMask Sharding::partial_axes() const {
  AxisMask axes = 0;
  for (size_t a = 0; a < kMaxAxes; ++a) {
    if (partial[a] != PartialState::kComplete) axes |= AxisSet(a);
  }
  return axes;
}

AxisMask Sharding::split_axes() const {
  AxisMask axes = 0;
  for (const ShardedDim& dim : dims) {
    for (const Parts& term : dim.terms) {
      for (const Part& part : term) axes |= part.axes;
    }
  }
  return axes;
}

Sharding Replicated(const Shape& shape) {
  Sharding sharding;
  for (int64_t size : shape) {
    sharding.dims.push_back({{size == 1 ? Parts{} : Parts{{size, 0}}}});
  }
  return sharding;
}

Sharding Normalised(const Mesh& mesh, Sharding sharding) {
  for (ShardedDim& dim : sharding.dims) dim = Normalised(mesh, dim);
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (mesh.axes[a].size == 1) sharding.partial[a] = PartialState::kComplete;
  }
  return sharding;
}

Sharding OperandSharding(const Mesh& mesh, const Rule& rule, const Strategy& strategy, size_t o) {
  Sharding sharding = SplitLike(rule, rule.operands[o], strategy);
  for (size_t a = 0; a < strategy.size(); ++a) {
    if (strategy[a].is_partial() && InSet(rule, strategy[a], o))
      sharding.partial[a] = PartialState::kSum;
  }
  return Normalised(mesh, sharding);
}

Sharding ResultSharding(const Mesh& mesh, const Rule& rule, const Strategy& strategy, size_t r) {
  Sharding sharding = SplitLike(rule, rule.results[r], strategy);
  for (size_t a = 0; a < strategy.size(); ++a) {
    if (strategy[a].is_partial()) sharding.partial[a] = PartialState::kSum;
    if (!strategy[a].is_split() || Has(rule.results[r], strategy[a].factor())) continue;
    FactorKind kind = rule.factors[strategy[a].factor_index()].kind;
    if (kind == FactorKind::kSummed) sharding.partial[a] = PartialState::kSum;
    if (kind == FactorKind::kMaxed) sharding.partial[a] = PartialState::kMax;
  }
  return Normalised(mesh, sharding);
}

Sharding OperandGradient(const Mesh& mesh, const Rule& rule, const Strategy& strategy, size_t o) {
  Sharding sharding = SplitLike(rule, rule.operands[o], strategy);
  for (size_t a = 0; a < strategy.size(); ++a) {
    bool lacks = strategy[a].is_split() && !Has(rule.operands[o], strategy[a].factor());
    bool beside = strategy[a].is_partial() && !InSet(rule, strategy[a], o);
    if (lacks || beside) sharding.partial[a] = PartialState::kSum;
  }
  return Normalised(mesh, sharding);
}

Sharding ResultGradient(const Mesh& mesh, const Rule& rule, const Strategy& strategy, size_t r) {
  return Normalised(mesh, SplitLike(rule, rule.results[r], strategy));
}

std::vector<Block> LocalBlocks(const Mesh& mesh, const Rule& rule, const Strategy& strategy,
                               const Position& position) {
  std::vector<Block> blocks;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    Part part{rule.factors[f].size, AxesOf(strategy, static_cast<int>(f))};
    blocks.push_back(BlockOf(mesh, part, position));
  }
  return blocks;
}

Ranges HeldRanges(const Mesh& mesh, const ShardedDim& dim, const Position& position) {
  Ranges held;
  int64_t offset = 0;
  for (const Parts& term : dim.terms) {
    Ranges ranges = {{0, 1}};  // of the outer parts so far, in their own units
    for (const Part& part : term) {
      Block block = BlockOf(mesh, part, position);
      Ranges next;
      if (block.size() == part.size) {
        for (Block outer : ranges) Append(next, {outer.begin * part.size, outer.end * part.size});
      } else {
        for (Block outer : ranges) {
          for (int64_t i = outer.begin; i < outer.end; ++i) {
            Append(next, {i * part.size + block.begin, i * part.size + block.end});
          }
        }
      }
      ranges = std::move(next);
    }
    for (Block range : ranges) Append(held, {offset + range.begin, offset + range.end});
    offset += SizeOf(term);
  }
  return held;
}

int64_t Count(const Ranges& ranges) {
  int64_t count = 0;
  for (Block range : ranges) count += range.size();
  return count;
}

namespace {

int64_t LocalSize(const Mesh& mesh, const ShardedDim& dim, const Position& position) {
  int64_t size = 0;
  for (const Parts& term : dim.terms) {
    int64_t product = 1;
    for (const Part& part : term) product *= BlockOf(mesh, part, position).size();
    size += product;
  }
  return size;
}

}  // namespace

Shape LocalShape(const Mesh& mesh, const Sharding& sharding, const Position& position) {
  Shape shape;
  for (const ShardedDim& dim : sharding.dims) shape.push_back(LocalSize(mesh, dim, position));
  return shape;
}

int64_t LocalElements(const Mesh& mesh, const Sharding& sharding, const Position& position) {
  SmallVector<int64_t, 6> sizes;
  for (const ShardedDim& dim : sharding.dims) sizes.push_back(LocalSize(mesh, dim, position));
  return ElementCount({sizes.data(), sizes.size()});
}

Shape PaddedShape(const Mesh& mesh, const Sharding& sharding) {
  Position largest;
  for (const MeshAxis& axis : mesh.axes) largest.push_back(LargestOf(axis));
  return LocalShape(mesh, sharding, largest);
}

Shape GlobalShape(const Sharding& sharding) {
  Shape shape;
  for (const ShardedDim& dim : sharding.dims) shape.push_back(SizeOf(dim));
  return shape;
}

std::string ToString(const Mesh& mesh, const Sharding& sharding) {
  std::vector<std::string> dims;
  for (const ShardedDim& dim : sharding.dims) {
    std::vector<std::string> terms;
    for (const Parts& term : dim.terms) {
      std::vector<std::string> parts;
      for (const Part& part : term) {
        std::string text = fmt::format("{}", part.size);
        for (size_t a = 0; a < mesh.axes.size(); ++a) {
          if (Contains(part.axes, a)) text += "/" + mesh.axes[a].name;
        }
        parts.push_back(std::move(text));
      }
      terms.push_back(parts.empty() ? "1" : fmt::format("{}", fmt::join(parts, "*")));
    }
    dims.push_back(fmt::format("{}", fmt::join(terms, "|")));
  }
  std::string text = fmt::format("[{}]", fmt::join(dims, ","));
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (sharding.partial[a] == PartialState::kSum)
      text += fmt::format(" sum({})", mesh.axes[a].name);
    if (sharding.partial[a] == PartialState::kMax)
      text += fmt::format(" max({})", mesh.axes[a].name);
  }
  return text;
}

}  // namespace heddle
