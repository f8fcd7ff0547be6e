// The sharding of a value: which part of it each device of a mesh holds.
//
// A dimension is a concatenation of products of *parts*; mesh axes split parts, several axes on one part in
// turn, outer first, into blocks of ceil(n/p), or, along an axis of unlike shares, in
// proportion to them. A device holds, of every dimension, the same concatenation of
// products of its blocks; along axes that split nothing devices hold the same, or (partial) terms whose sum or
// maximum over the axis is the value.
//
//   f32[8,512,768] on a mesh of dp 2, tp 4:
//   [8/dp, 512, 12/tp*64]          split over the batch and, by heads, over the hidden size
//   [8/dp, 512, 768] sum(tp)       split over the batch, a partial sum over tp
//
// Rule + strategy give the sharding of every operand and result, and of their gradients (the dual): an
// operand's gradient is split like the operand and partial over the axes of the factors it lacks; a result's
// gradient is needed split like the result and complete.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/small_vector.h"
#include "ops/rule.h"
#include "plan/mesh.h"

namespace heddle {

// What a node does with one axis of its mesh.
//   kReplicate      every device along the axis computes the same
//   Split(f)        the devices share out factor f of the node's rule
//   PassPartial(k)  operands of the rule's k-th linear set come as partial sums, and so do the results
// Choices are ordered: partial sums, kReplicate, splits by factor.
class AxisChoice {
 public:
  constexpr AxisChoice() = default;

  constexpr bool is_split() const { return code_ >= 0; }
  constexpr bool is_partial() const { return code_ <= -2; }
  constexpr bool splits(int factor) const { return factor >= 0 && code_ == factor; }
  // The factor that it splits; -1: none.
  constexpr int factor() const { return is_split() ? code_ : -1; }
  constexpr size_t factor_index() const {
    HEDDLE_CHECK(is_split(), "choice {} splits no factor", code_);
    return static_cast<size_t>(code_);
  }
  constexpr int linear_set() const {
    HEDDLE_CHECK(is_partial(), "choice {} passes no partial sums", code_);
    return -2 - code_;
  }

  constexpr auto operator<=>(const AxisChoice&) const = default;

 private:
  constexpr explicit AxisChoice(int code) : code_(code) {}
  friend constexpr AxisChoice Split(int factor);
  friend constexpr AxisChoice PassPartial(int linear_set);

  int code_ = -1;  // a factor; -1: replicates; -2 - k: passes partial sums of set k
};
inline constexpr AxisChoice kReplicate;
constexpr AxisChoice Split(int factor) {
  HEDDLE_CHECK(factor >= 0, "factor {}", factor);
  return AxisChoice(factor);
}
constexpr AxisChoice PassPartial(int linear_set) {
  HEDDLE_CHECK(linear_set >= 0, "linear set {}", linear_set);
  return AxisChoice(-2 - linear_set);
}

// Of a factor, or of -1: none.
constexpr AxisChoice SplitIfAny(int factor) { return factor < 0 ? kReplicate : Split(factor); }

// One choice for each axis of the mesh.
using Strategy = std::vector<AxisChoice>;

struct Part {
  int64_t size = 1;
  AxisMask axes = 0;  // the axes that split it, outer first
  bool operator==(const Part&) const = default;
};
using Parts = SmallVector<Part, 2>;  // a product, outermost first
int64_t SizeOf(const Parts& parts);

struct ShardedDim {
  SmallVector<Parts, 1> terms = {Parts{}};  // a concatenation; an empty product has size 1
  bool operator==(const ShardedDim&) const = default;
};

enum class PartialState : uint8_t { kComplete, kSum, kMax };

struct Sharding {
  std::vector<ShardedDim> dims;
  std::array<PartialState, kMaxAxes> partial = {};  // per axis of the mesh
  bool operator==(const Sharding&) const = default;

  // The axes along which it is partial (either way), and those that split it.
  AxisMask partial_axes() const;
  AxisMask split_axes() const;
};

// The sharding of a value that every device holds whole.
Sharding Replicated(const Shape& shape);

// The sharding with the dimensions in normal form: equal shardings of different origin compare equal where a
// part is split evenly (768/2 is 12/2*64).
Sharding Normalised(const Mesh& mesh, Sharding sharding);

// The sharding in which a node needs operand `o`, and in which it computes result `r`. All in normal form.
Sharding OperandSharding(const Mesh& mesh, const Rule& rule, const Strategy& strategy, size_t o);
Sharding ResultSharding(const Mesh& mesh, const Rule& rule, const Strategy& strategy, size_t r);
// The sharding in which a node computes the gradient of operand `o`, and in which it needs that of result `r`.
Sharding OperandGradient(const Mesh& mesh, const Rule& rule, const Strategy& strategy, size_t o);
Sharding ResultGradient(const Mesh& mesh, const Rule& rule, const Strategy& strategy, size_t r);

// The blocks of all factors that the device at `position` computes.
std::vector<Block> LocalBlocks(const Mesh& mesh, const Rule& rule, const Strategy& strategy,
                               const Position& position);

// The coordinates along one dimension that a device holds, in the order it holds them: neighbouring ranges
// are one.
using Ranges = std::vector<Block>;
Ranges HeldRanges(const Mesh& mesh, const ShardedDim& dim, const Position& position);
int64_t Count(const Ranges& ranges);

// What the device at `position` holds, how many elements that are, and the most that any device holds along each dimension.
Shape LocalShape(const Mesh& mesh, const Sharding& sharding, const Position& position);
int64_t LocalElements(const Mesh& mesh, const Sharding& sharding, const Position& position);
Shape PaddedShape(const Mesh& mesh, const Sharding& sharding);
Shape GlobalShape(const Sharding& sharding);

// "[8/dp,512,12/tp*64] sum(tp)".
std::string ToString(const Mesh& mesh, const Sharding& sharding);

}  // namespace heddle
