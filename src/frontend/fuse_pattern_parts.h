// Building blocks for the models of fuse_patterns.h: activations, normalisations, attention and products as separate
// ops, in the forms that exporters write.
#pragma once

#include <cmath>
#include <limits>

#include "frontend/fuse_patterns.h"

namespace heddle::patterns {

using Ints = std::vector<int64_t>;
using M = PatternModel;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLowest = std::numeric_limits<float>::lowest();

// --- Activations ---------------------------------------------------------------------------------

inline ValueId GeluInput(M& m) { return m.Activation({2, 3, 4}); }

inline ValueId OnePlusErf(M& m, ValueId x, bool by_division = true) {
  ValueId scaled = by_division ? m("Div", {x, m.Scalar(1.4142135381698608)})
                               : m("Mul", {x, m.Scalar(0.70710678118)});
  return m("Add", {m("Erf", {scaled}), m.Scalar(1)});
}

inline ValueId Cube(M& m, ValueId x) { return m("Pow", {x, m.Scalar(3)}); }

// 1 + tanh(sqrt(2/pi) (x + cubic)), constants first or last.
inline ValueId OnePlusTanh(M& m, ValueId x, ValueId cubic, bool constants_first) {
  auto op = [&](std::string_view name, ValueId a, ValueId b) {
    return constants_first ? m(name, {b, a}) : m(name, {a, b});
  };
  ValueId inner = op("Mul", op("Add", x, cubic), m.Scalar(0.7978845608028654));
  return op("Add", m("Tanh", {inner}), m.Scalar(1));
}

// --- Normalisations ------------------------------------------------------------------------------

inline ValueId NormInput(M& m) { return m.Activation({2, 3, 8}); }

inline ValueId Mean(M& m, ValueId x, int64_t axis) {
  return m("ReduceMean", {x}, {{"axes", Ints{axis}}, {"keepdims", int64_t{1}}});
}

inline ValueId Deviation(M& m, ValueId x, bool by_pow = true, int64_t axis = 2) {
  ValueId square = by_pow ? m("Pow", {x, m.Scalar(2)}) : m("Mul", {x, x});
  return m("Sqrt", {m("Add", {Mean(m, square, axis), m.Scalar(1e-5)})});
}

inline ValueId Centred(M& m, ValueId x) { return m("Sub", {x, Mean(m, x, 2)}); }

// --- Attention -----------------------------------------------------------------------------------

constexpr int64_t kBatch = 2, kHeads = 4, kLength = 5, kWidth = 3;

inline ValueId Heads(M& m) { return m.Activation({kBatch, kHeads, kLength, kWidth}); }

inline ValueId SwapLast(M& m, ValueId x) {
  Ints perm;
  for (size_t d = 0; d < m.shape(x).size(); ++d) perm.push_back(static_cast<int64_t>(d));
  std::swap(perm[perm.size() - 2], perm.back());
  return m("Transpose", {x}, {{"perm", perm}});
}

inline ValueId Product(M& m) { return m("MatMul", {Heads(m), SwapLast(m, Heads(m))}); }
inline ValueId ScaledProduct(M& m) { return m("Mul", {Product(m), m.Scalar(0.4)}); }

inline ValueId Softmax(M& m, ValueId scores, int64_t axis = -1) {
  return m("Softmax", {scores}, {{"axis", axis}});
}
inline ValueId Attend(M& m, ValueId scores) { return m("MatMul", {Softmax(m, scores), Heads(m)}); }

// Random numbers with some masked entries; no row is masked entirely.
inline ValueId SparseMask(M& m) {
  std::vector<double> numbers(kLength * kLength, 0);
  for (size_t i = 0; i < numbers.size(); i += 3) numbers[i] = -kInf;
  return m.Constant({1, 1, kLength, kLength}, numbers);
}

// True where a causal mask keeps the score.
inline ValueId CausalCondition(M& m) {
  std::vector<double> kept;
  for (int64_t i = 0; i < kLength * kLength; ++i) kept.push_back(i % kLength <= i / kLength);
  return m.Constant({1, 1, kLength, kLength}, kept, DType::kBool);
}

inline ValueId PaddingCondition(M& m, std::vector<double> kept) {
  return m.Constant({1, 1, 1, kLength}, kept, DType::kBool);
}

// [b,2,s,d] repeated to [b,4,s,d], each head twice.
inline ValueId RepeatHeads(M& m, ValueId x, bool adjacent = true) {
  Ints narrow = {kBatch, 2, 1, kLength, kWidth}, wide = {kBatch, 2, 2, kLength, kWidth};
  if (!adjacent) std::swap(narrow[1], narrow[2]);
  ValueId inserted = m("Reshape", {x}, {{"shape", narrow}});
  ValueId repeated = m("Expand", {inserted}, {{"shape", wide}});
  return m("Reshape", {repeated}, {{"shape", Ints{kBatch, 4, kLength, kWidth}}});
}
inline ValueId FewHeads(M& m) { return m.Activation({kBatch, 2, kLength, kWidth}); }

inline ValueId GuardNaN(M& m, ValueId p) { return m("Where", {m("IsNaN", {p}), m.Scalar(0), p}); }

// --- Linear --------------------------------------------------------------------------------------

inline ValueId Rows(M& m) { return m.Activation({2, 3, 4}); }
inline ValueId Turned(M& m) {
  return m("Transpose", {m.Parameter({5, 4})}, {{"perm", Ints{1, 0}}});
}

}  // namespace heddle::patterns
