// Models with ops that exporters write separately, each in one of their forms. Tests here check that fusion finds them;
// tests in tests/torch check that fusion does not change results.
#pragma once

#include <ostream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace heddle {

// Builds a model op by op. Names are numbered; numbers are random but the same in every run.
class PatternModel {
 public:
  ValueId Input(Shape shape);
  ValueId Parameter(Shape shape);
  ValueId Scalar(double number);
  ValueId Constant(Shape shape, std::span<const double> numbers, DType dtype = DType::kF32);
  // An activation: an input minus a parameter, so that gradients through it are checked.
  ValueId Activation(Shape shape);

  // Masks of [1,1,size,size]: `low` (for a bool: 1) above the diagonal, 0 elsewhere.
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
  // The ops of the model after fusion, without the Subs that make activations and the weighted sum.
  std::string_view ops;
  ValueId (*build)(PatternModel&);
};
inline void PrintTo(const FusePattern& pattern, std::ostream* out) { *out << pattern.name; }

// Models that must be fused, and models that only resemble a pattern and must not be.
std::span<const FusePattern> AllFusePatterns();
std::span<const FusePattern> AllNearPatterns();

// The ops of a model in order, in the form of FusePattern::ops.
std::string PatternOps(const Graph& graph);

}  // namespace heddle
