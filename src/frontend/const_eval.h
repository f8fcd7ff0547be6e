// Evaluates constant subgraphs at import (shape arithmetic, masks, position tables, casts) without libtorch.
//
// Constants are stored with lazily broadcast dimensions: a mask that repeats along the batch, the heads and the rows is
// stored once, so a [1536,96,2048,2048] mask takes only the memory of its distinct entries.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/tensor.h"

namespace heddle {

// A tensor of `shape`. In each dimension its storage has either the same size, or 1 where the tensor repeats.
struct ConstTensor {
  Shape shape;
  std::shared_ptr<const HostTensor> storage;  // same rank as shape

  DType dtype() const { return storage->dtype; }
  TensorType type() const { return {storage->dtype, shape}; }
};

// Stores every dimension along which the tensor repeats with size 1.
ConstTensor Compress(HostTensor tensor);

// The dense tensor. Throws an InputError where it would exceed `max_bytes`.
HostTensor Materialize(const ConstTensor& tensor, int64_t max_bytes = int64_t{1} << 30);

// The number that all elements are equal to; empty where they differ.
std::optional<double> SplatValue(const ConstTensor& tensor);

// The elements of a small integer tensor (shapes, axes, starts), row-major. Throws an InputError where its type is not
// an integer type or it has more than 1024 elements.
std::vector<int64_t> ToInts(const ConstTensor& tensor, std::string_view what);

// The results of an op applied to constants, with the types of the op's rule. Empty where this evaluator does not
// support the op for these types or attributes, where an integer is divided by zero, and where a result would need more
// than 64 MiB of new storage. Throws an InputError that names the op where an index is out of range, or operands,
// attributes and result types do not match.
//
// Arithmetic follows the type: f32 and f64 are rounded after every op, 16-bit floats are computed in f32 and rounded,
// integers wrap, floats that are cast to integers are truncated and saturate. Sums of floats (MatMul, ReduceSum,
// CumSum) are accumulated in f64 and rounded once.
//
// The cost is one pass over the *storage* of the result: what repeats in all operands is computed once, and Expand
// shares its operand's storage. The loops of the ops are in const_eval_*.cc, one file per family.
std::optional<std::vector<ConstTensor>> EvaluateConstant(std::string_view op,
                                                         const Attributes& attributes,
                                                         std::span<const ConstTensor> operands,
                                                         std::span<const TensorType> result_types);

}  // namespace heddle
