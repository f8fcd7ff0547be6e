// The rule of an op: the one declaration from which shapes, shardings, collectives, work and memory
// are derived.
//
// A rule names the *factors* of the op's iteration space and says, for each dimension of each operand
// and result, which factors it runs over:
//
//   MatMul   [b,i,k] x [b,k,j] -> [b,i,j]     b,i,j parallel   k summed
//   Gather   [v,d] x [i] -> [i,d]             i,d parallel     v summed (rows held elsewhere give zero)
//   Softmax  [i,c] -> [i,c]                   i parallel       c whole
//
// Splitting a factor over ranks gives each rank a block of it (FactorBlock) and so, through the rule,
// a local part of every operand and result: what a rank computes from its local operands is
//   - its local part of every result that has the factor,
//   - for a result without it: the same on all ranks (parallel), a term of a sum (summed), or a term of
//     a maximum (maxed; no gradient flows through it).
// Gradients follow by duality: an operand's gradient is split like the operand and a partial sum over
// the factors it lacks; a result's gradient is needed split like the result and whole otherwise.
//
// A dimension is a concatenation of products of factors: tokens = (batch sequence), a fused QKV =
// (heads width)|(heads width)|(heads width). The local part of a dimension is the same concatenation of
// products of local blocks. A factor that can be split stands in every term of a concatenation or in
// none: otherwise the other terms would be held, and their gradients summed, more than once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/tensor.h"

namespace heddle {

enum class FactorKind : uint8_t {
  kParallel,  // splitting costs nothing
  kSummed,    // splitting leaves a partial sum in the results that lack it
  kMaxed,     // splitting leaves a partial maximum in the results that lack it
  kExpanded,  // splitting is possible in the op's expansion only
  kWhole,     // never split
};

struct Factor {
  std::string name;
  int64_t size = 1;
  FactorKind kind = FactorKind::kParallel;
  bool operator==(const Factor&) const = default;
};

// Indices into Rule::factors, outermost first; empty for a dimension of size 1.
using Product = std::vector<int>;

// A concatenation of products.
struct Dim {
  std::vector<Product> terms = {{}};
  bool operator==(const Dim&) const = default;
};
using Dims = std::vector<Dim>;

// flops per point of the space spanned by `factors`. Contractions are the matrix products and
// convolutions: what PyTorch's FlopCounterMode counts.
struct WorkTerm {
  double flops = 1;
  std::vector<int> factors;
  bool contraction = false;
  // Backward does this much again for every set of operands here of which one needs a gradient; where
  // nothing is said, for every differentiable operand.
  std::vector<std::vector<int>> gradients = {};
  bool operator==(const WorkTerm&) const = default;
};

// Bytes per point of the space spanned by `factors`, kept besides operands and results: a dropout mask
// (1 per element), the statistics of a normalisation (8 per row).
struct KeepTerm {
  double bytes = 0;
  std::vector<int> factors;
  bool operator==(const KeepTerm&) const = default;
};

// What the backward half needs kept from the forward half.
struct Keep {
  std::vector<int> operands;  // kept where any gradient is needed
  std::vector<int>
      crossed;  // factors of a product: each kept where another of them needs a gradient
  std::vector<int> results;
  std::vector<KeepTerm> extra;
  bool operator==(const Keep&) const = default;
};

struct Rule {
  std::vector<Factor> factors;
  std::vector<Dims> operands;
  std::vector<Dims> results;
  std::vector<DType> result_dtypes;
  // Sets of operands in which the op is linear: a partial sum given for exactly these operands (the
  // others whole) gives the partial sum of the results. MatMul {{0},{1}}, Add {{0,1}}.
  std::vector<std::vector<int>> linear;
  std::vector<WorkTerm> work;
  Keep keep;
  // What forward needs for itself while it runs, in bytes per point, and backward twice: copies of the logits, and
  // gradients of the loss, in fp32.
  std::vector<KeepTerm> scratch;
  // Operands that a gradient can reach; empty for an op without a gradient.
  std::vector<int> differentiable;
  // Results are views of operand 0: nothing is computed or moved.
  bool view = false;

  bool operator==(const Rule&) const = default;
};

// A half-open range of a factor.
struct Block {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Block&) const = default;
};

// Block `index` of `parts` of a factor of size n: ceil(n/parts) each, later ones short or empty.
Block FactorBlock(int64_t n, int64_t parts, int64_t index);

// The blocks of all factors when nothing is split.
std::vector<Block> WholeBlocks(const Rule& rule);

// Sizes of dimensions when every factor is cut down to its block.
Shape LocalShape(const Rule& rule, const Dims& dims, std::span<const Block> blocks);
// The elements of that shape.
int64_t LocalElements(const Rule& rule, const Dims& dims, std::span<const Block> blocks);
Shape GlobalShape(const Rule& rule, const Dims& dims);
std::vector<TensorType> ResultTypes(const Rule& rule);

// Does any dimension of the tensor run over this factor?
bool Has(const Dims& dims, int factor);

// Forward work of the part given by `blocks`.
struct Work {
  double flops = 0;              // all
  double contraction_flops = 0;  // matrix products and convolutions
};
Work ForwardWork(const Rule& rule, std::span<const Block> blocks);

// "[b,i,k] x [b,k,j] -> [b,i,j]   b,i,j parallel  k summed", for people and golden tests.
std::string ToString(const Rule& rule);

}  // namespace heddle
