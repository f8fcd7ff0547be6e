// Initial weights for parameters that the model file does not give: a pure function of the seed, the parameter's name
// and the position of the element, so that every plan starts from the same weights.
#pragma once

#include <ATen/ATen.h>

#include "graph/graph.h"
#include "ops/rules.h"

namespace heddle {

// Depends on the parameter's first use: scales of normalisations are 1, biases 0, embedding tables normal with standard
// deviation 0.02, weights of products normal with standard deviation 1/sqrt(fan in).
at::Tensor InitialWeights(const Graph& graph, ValueId parameter, const Rules& rules, uint64_t seed);

// Standard normal numbers in the given shape. They are the elements from position `first` on of a longer row-major
// tensor.
at::Tensor SeededNormal(const Shape& shape, uint64_t seed, uint64_t stream, int64_t first = 0);
// The same for integers in [0, bound).
at::Tensor SeededIntegers(const Shape& shape, int64_t bound, uint64_t seed, uint64_t stream,
                          int64_t first = 0);

}  // namespace heddle
