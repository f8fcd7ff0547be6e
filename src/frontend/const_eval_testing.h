// Helpers that make constants and evaluate one op, for the tests of const_eval.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "frontend/const_eval.h"

namespace heddle::const_eval_testing {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

inline ConstTensor Dense(HostTensor tensor) {
  Shape shape = tensor.shape;
  return {std::move(shape), std::make_shared<const HostTensor>(std::move(tensor))};
}
inline ConstTensor F(Shape shape, Doubles values, DType dtype = DType::kF32) {
  return Dense(MakeTensor(dtype, std::move(shape), values));
}
inline ConstTensor I(Shape shape, Ints values, DType dtype = DType::kI64) {
  return Dense(MakeTensor(dtype, std::move(shape), values));
}
inline ConstTensor B(Shape shape, Ints values) {
  return I(std::move(shape), std::move(values), DType::kBool);
}
inline ConstTensor Vec(Doubles values, DType dtype = DType::kF32) {
  const Shape shape = {static_cast<int64_t>(values.size())};
  return F(shape, std::move(values), dtype);
}
inline ConstTensor IVec(Ints values, DType dtype = DType::kI64) {
  const Shape shape = {static_cast<int64_t>(values.size())};
  return I(shape, std::move(values), dtype);
}

inline Doubles Values(const ConstTensor& tensor) {
  const HostTensor dense = Materialize(tensor);
  Doubles values;
  for (int64_t i = 0; i < dense.size(); ++i) values.push_back(AsDouble(dense, i));
  return values;
}
inline Ints IntValues(const ConstTensor& tensor) {
  const HostTensor dense = Materialize(tensor);
  Ints values;
  for (int64_t i = 0; i < dense.size(); ++i) values.push_back(AsInt(dense, i));
  return values;
}

inline std::optional<ConstTensor> TryEval(std::string_view op, const Attributes& attributes,
                                          std::vector<ConstTensor> operands, TensorType type) {
  auto results = EvaluateConstant(op, attributes, operands, std::vector{type});
  if (!results) return std::nullopt;
  EXPECT_EQ(results->size(), 1u);
  EXPECT_EQ((*results)[0].type(), type) << op;
  return (*results)[0];
}

inline ConstTensor Eval(std::string_view op, const Attributes& attributes,
                        std::vector<ConstTensor> operands, TensorType type) {
  auto result = TryEval(op, attributes, std::move(operands), type);
  EXPECT_TRUE(result.has_value()) << op;
  return result ? *result : Dense(HostTensor(type.dtype, type.shape));
}

// Evaluates a unary op whose result has the type of its operand.
inline Doubles Unary(std::string_view op, Doubles x, DType dtype = DType::kF32,
                     const Attributes& attributes = {}) {
  const ConstTensor operand = Vec(std::move(x), dtype);
  return Values(Eval(op, attributes, {operand}, operand.type()));
}

inline Doubles Binary(std::string_view op, Doubles a, Doubles b, DType dtype = DType::kF32,
                      const Attributes& attributes = {}) {
  const ConstTensor left = Vec(std::move(a), dtype);
  return Values(Eval(op, attributes, {left, Vec(std::move(b), dtype)}, left.type()));
}

inline std::string InputErrorOf(std::string_view op, const Attributes& attributes,
                                std::vector<ConstTensor> operands, std::vector<TensorType> types) {
  try {
    EvaluateConstant(op, attributes, operands, types);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace heddle::const_eval_testing
