// Models that hold what exporters take apart, each in one of the forms they write it: that fusion finds
// it is tested here, that it computes the same in tests/torch.
#pragma once

#include <ostream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace heddle {

// Builds a model op by op. Names are numbered; numbers are random but the same every time.
class PatternModel {
 public:
  ValueId Input(Shape shape);
  ValueId Parameter(Shape shape);
  ValueId Scalar(double number);
  ValueId Constant(Shape shape, std::span<const double> numbers, DType dtype = DType::kF32);
  // An activation: an input less a parameter, so that gradients through it are seen.
  ValueId Activation(Shape shape);

  // Masks of [1,1,size,size]: `low` (or 1 in a bool) above the diagonal, 0 elsewhere.
  ValueId CausalMask(int64_t size, double low, DType dtype = DType::kF32);

  ValueId operator()(std::string_view op, std::vector<ValueId> operands,
                     Attributes attributes = {});

  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }

  // The model whose loss is a weighted sum of the values.
  Graph Finish(std::vector<ValueId> values);

 private:
  std::vector<double> Random(const Shape& shape);
  std::string Name(std::string_view prefix);

  Graph graph_;
  std::mt19937_64 rng_{7};
};

struct FusePattern {
  std::string_view name;
  // The ops of the model after fusion, but for the Subs that make activations and the weighted sum.
  std::string_view ops;
  ValueId (*build)(PatternModel&);
};
inline void PrintTo(const FusePattern& pattern, std::ostream* out) { *out << pattern.name; }

// Those that fuse, and those that merely resemble one and must not.
std::span<const FusePattern> AllFusePatterns();
std::span<const FusePattern> AllNearPatterns();

// The ops of a pattern's model in order, as FusePattern::ops has them.
std::string PatternOps(const Graph& graph);

}  // namespace heddle
