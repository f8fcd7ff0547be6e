// Evaluates constant subgraphs at import (shape arithmetic, masks, position tables, casts), without
// libtorch.
//
// Constants are kept with lazily broadcast dimensions: a mask that merely repeats along the batch, the
// heads and the rows is stored once, so a [1536,96,2048,2048] mask costs what its distinct entries cost,
// and "constants that merely repeat along the batch shrink to 1" is how they are held from the start.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/tensor.h"

namespace heddle {

// A tensor of `shape` whose storage has, in each dimension, either that size or 1 (repeated).
struct ConstTensor {
  Shape shape;
  std::shared_ptr<const HostTensor> storage;  // same rank as shape

  DType dtype() const { return storage->dtype; }
  TensorType type() const { return {storage->dtype, shape}; }
};

// Shrinks every dimension along which the tensor merely repeats.
ConstTensor Compress(HostTensor tensor);

// The dense tensor. Throws InputError where it would exceed `max_bytes`.
HostTensor Materialize(const ConstTensor& tensor, int64_t max_bytes = int64_t{1} << 30);

// If every element is the same number, that number.
std::optional<double> SplatValue(const ConstTensor& tensor);

// The elements of a small integer tensor (shapes, axes, starts), row-major. Throws InputError when it is
// not of an integer type or has more than 1024 elements.
std::vector<int64_t> ToInts(const ConstTensor& tensor, std::string_view what);

// The results of op applied to constants, types as the op's rule gives them. Nothing where this
// evaluator does not know the op for these types or attributes, where an integer is divided by zero, or
// where a result would need new storage of more than 64 MiB. Throws InputError, whose text names the op,
// where an index is out of range or operands, attributes and result types do not fit each other.
//
// Arithmetic is that of the type: f32 and f64 round after every op, the 16-bit floats are computed in f32
// and rounded, integers wrap, floats cast to integers truncate and saturate. Sums of floats (MatMul,
// ReduceSum, CumSum) are accumulated in f64 and rounded once.
//
// Cost: one pass over the *storage* of the result; what repeats in all operands is computed once, and
// Expand shares its operand's storage. The op's loops are in const_eval_*.cc, one file per family.
std::optional<std::vector<ConstTensor>> EvaluateConstant(std::string_view op,
                                                         const Attributes& attributes,
                                                         std::span<const ConstTensor> operands,
                                                         std::span<const TensorType> result_types);

}  // namespace heddle
