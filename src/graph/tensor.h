// Shapes, tensor types, and dense tensors in host memory (constants, weights, inputs from files).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "graph/dtype.h"

namespace heddle {

using Shape = std::vector<int64_t>;

// The largest number of dimensions of a tensor.
inline constexpr int64_t kMaxRank = 32;

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};

// The number of elements. Throws an InputError where a dimension is negative or the product does not fit 63 bits;
// `what` names the tensor in the message.
int64_t ElementCount(std::span<const int64_t> shape, std::string_view what = "tensor");

// The bytes of a dense tensor, with the same checks.
int64_t ByteCount(const TensorType& type, std::string_view what = "tensor");

// "[4,32]" and "f32[4,32]".
std::string ToString(std::span<const int64_t> shape);
std::string ToString(const TensorType& type);

// A dense row-major tensor. `data.size()` is always ByteCount of its type.
struct HostTensor {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::byte> data;

  HostTensor() = default;
  // All elements are 0.
  HostTensor(DType dtype, Shape shape);

  TensorType type() const { return {dtype, shape}; }
  int64_t size() const { return static_cast<int64_t>(data.size()) / SizeOf(dtype); }

  // A typed view. T must be the C++ type of `dtype` or an unsigned integer of its size (IsStoredAs).
  template <class T>
  std::span<T> as() {
    HEDDLE_CHECK(IsStoredAs<T>(dtype), "a tensor of {}", Name(dtype));
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }
  template <class T>
  std::span<const T> as() const {
    HEDDLE_CHECK(IsStoredAs<T>(dtype), "a tensor of {}", Name(dtype));
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }

  bool operator==(const HostTensor&) const = default;
};

// Makes a tensor from values that are converted to `dtype` element by element.
HostTensor MakeTensor(DType dtype, Shape shape, std::span<const double> values);
HostTensor MakeTensor(DType dtype, Shape shape, std::span<const int64_t> values);

// One element as double or int64_t. f16 and bf16 are widened; AsInt truncates floats towards zero.
double AsDouble(const HostTensor& tensor, int64_t index);
int64_t AsInt(const HostTensor& tensor, int64_t index);

// Conversions between float and the 16-bit formats. Conversions to 16 bits round to nearest even.
float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);
float BFloat16ToFloat(uint16_t bits);
uint16_t FloatToBFloat16(float value);

}  // namespace heddle
