// ONNX ops whose results are known at import: constants, and the shapes of values.
#include <algorithm>
#include <cmath>
#include <memory>

#include "frontend/onnx/ops.h"

namespace heddle {
namespace {

void ImportConstant(CallImport& n) {
  if (n.HasAttr("value")) {
    const TensorData data = n.Tensor("value");
    if (!data) n.Fail("the external data of this constant is missing");
    n.Return(Builder::Constant(HostTensor(*data)));
  } else if (n.HasAttr("value_int")) {
    n.Return(
        Builder::Constant(MakeTensor(DType::kI64, {}, std::vector<int64_t>{n.Int("value_int")})));
  } else if (n.HasAttr("value_ints")) {
    n.Return(CallImport::IntsConstant(n.IntList("value_ints")));
  } else if (n.HasAttr("value_float")) {
    n.Return(n.Number(DType::kF32, n.Float("value_float")));
  } else if (const auto* floats = n.Raw("value_floats")) {
    std::vector<double> values;
    if (const auto* list = std::get_if<std::vector<double>>(floats)) {
      values = *list;
    } else if (const auto* empty = std::get_if<std::vector<int64_t>>(floats);
               !empty || !empty->empty()) {
      n.Fail("attribute 'value_floats' must be a list of floats");
    }
    const Shape shape = {static_cast<int64_t>(values.size())};
    n.Return(Builder::Constant(MakeTensor(DType::kF32, shape, values)));
  } else {
    n.Fail("only dense constants of numbers are supported");
  }
}

void ImportConstantOfShape(CallImport& n) {
  const Shape shape = n.Ints(0, "shape");
  ElementCount(shape, "the result");
  HostTensor one(DType::kF32, {1});
  if (const auto* value = n.Raw("value")) {
    const auto* data = std::get_if<TensorData>(value);
    if (!data || !*data || (*data)->size() != 1) {
      n.Fail("attribute 'value' must be a tensor of one element");
    }
    one = **data;
  }
  one.shape = Shape(shape.size(), 1);
  if (ElementCount(shape) == 0) one = HostTensor(one.dtype, shape);
  n.Return(Builder::Constant(ConstTensor{shape, std::make_shared<HostTensor>(std::move(one))}));
}

void ImportShape(CallImport& n) {
  const int64_t rank = n.rank(0);
  const auto clamp = [rank](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank);
  };
  const int64_t start = clamp(std::max(n.Int("start", 0), -rank));
  const int64_t end = clamp(std::max(n.Int("end", rank), -rank));
  const Shape& shape = n.shape(0);
  std::vector<int64_t> part;
  for (int64_t i = start; i < end; ++i) part.push_back(shape[static_cast<size_t>(i)]);
  n.Return(CallImport::IntsConstant(part));
}

// ceil((limit - start) / delta), at least 0.
int64_t IntRangeCount(CallImport& n, int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0) n.Fail("delta is 0");
  const __int128 span = static_cast<__int128>(limit) - start;
  const __int128 step = delta;
  if ((span > 0) != (step > 0) || span == 0) return 0;
  const __int128 count = (span + step + (step > 0 ? -1 : 1)) / step;
  if (count > INT32_MAX) n.Fail("has more than 2^31 elements");
  return static_cast<int64_t>(count);
}

void ImportRange(CallImport& n) {
  const DType dtype = n.dtype(0);
  int64_t count = 0;
  if (IsFloat(dtype)) {
    const double start = n.Scalar(0, "start"), limit = n.Scalar(1, "limit"),
                 delta = n.Scalar(2, "delta");
    const double exact = std::ceil((limit - start) / delta);
    if (!std::isfinite(exact) || exact > INT32_MAX) n.Fail("has {} elements", exact);
    count = static_cast<int64_t>(std::max(0.0, exact));
    if (!n.builder().TakeConstantBytes(8 * count)) n.Fail("has {} elements, too many", count);
    std::vector<double> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i) * delta;
    n.Return(Builder::Constant(MakeTensor(dtype, {count}, values)));
    return;
  }
  const int64_t start = n.ScalarInt(0, "start"), limit = n.ScalarInt(1, "limit"),
                delta = n.ScalarInt(2, "delta");
  count = IntRangeCount(n, start, limit, delta);
  if (!n.builder().TakeConstantBytes(8 * count)) n.Fail("has {} elements, too many", count);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<int64_t>(start + static_cast<__int128>(i) * delta));
  }
  n.Return(Builder::Constant(MakeTensor(dtype, {count}, values)));
}

}  // namespace

std::span<const OpImport> OnnxConstantOps() {
  static const OpImport ops[] = {
      {"Constant", 0, 0, ImportConstant},
      {"ConstantOfShape", 1, 1, ImportConstantOfShape},
      {"Range", 3, 3, ImportRange},
      {"Shape", 1, 1, ImportShape},
      {"Size", 1, 1,
       [](CallImport& n) {
         n.Return(Builder::Constant(MakeTensor(
             DType::kI64, {}, std::vector<int64_t>{ElementCount(n.shape(0), "operand")})));
       }},
      {"Identity", 1, 1, [](CallImport& n) { n.Return(n.Any(0)); }},
  };
  return ops;
}

}  // namespace heddle
