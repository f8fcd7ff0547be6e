#include "graph/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "base/error.h"

namespace heddle {
namespace {

// Calls fn with a value of the C++ type that stores `dtype`. uint16_t always stands for a 16-bit float.
template <class Fn>
decltype(auto) WithStorage(DType dtype, Fn fn) {
  switch (dtype) {
    case DType::kF32:
      return fn(float{});
    case DType::kF64:
      return fn(double{});
    case DType::kF16:
    case DType::kBF16:
      return fn(uint16_t{});
    case DType::kI64:
      return fn(int64_t{});
    case DType::kI32:
      return fn(int32_t{});
    case DType::kI16:
      return fn(int16_t{});
    case DType::kI8:
      return fn(int8_t{});
    case DType::kU8:
    case DType::kBool:
      return fn(uint8_t{});
  }
  HEDDLE_CHECK(false);
}

// Rounds towards zero and clamps to the range of T; NaN gives 0. A plain cast is undefined outside of that range.
template <class T>
T Truncate(double value) {
  if (std::isnan(value)) return 0;
  if constexpr (std::is_signed_v<T>) {
    constexpr double kEnd = -2.0 * static_cast<double>(std::numeric_limits<T>::min() / 2);
    if (value >= kEnd) return std::numeric_limits<T>::max();
    if (value <= -kEnd) return std::numeric_limits<T>::min();
  } else {
    if (value >= static_cast<double>(std::numeric_limits<T>::max())) {
      return std::numeric_limits<T>::max();
    }
    if (value <= 0) return 0;
  }
  return static_cast<T>(value);
}

// A double rounded to float with rounding to odd. Rounding a double to float and then to 16 bits could round twice; the
// odd last bit tells the second rounding whether the first one cut anything off.
float RoundToOdd(double value) {
  float nearest = static_cast<float>(value);
  if (std::isnan(value) || std::isinf(value) || static_cast<double>(nearest) == value)
    return nearest;
  if (std::isinf(nearest)) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (bits & 1u) return nearest;
  bool nearest_is_larger = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  return std::bit_cast<float>(nearest_is_larger ? bits - 1 : bits + 1);
}

template <class T, class From>
T Convert(DType dtype, From value) {
  if (dtype == DType::kBool) return static_cast<T>(value != From{0} ? 1 : 0);
  if constexpr (std::is_same_v<T, uint16_t>) {
    float narrow = RoundToOdd(static_cast<double>(value));
    return dtype == DType::kF16 ? FloatToHalf(narrow) : FloatToBFloat16(narrow);
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<From>) {
    return Truncate<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

template <class From>
HostTensor Make(DType dtype, Shape shape, std::span<const From> values) {
  HostTensor tensor(dtype, std::move(shape));
  HEDDLE_CHECK(tensor.size() == static_cast<int64_t>(values.size()));
  WithStorage(dtype, [&]<class T>(T) {
    std::span<T> out = tensor.as<T>();
    for (size_t i = 0; i < values.size(); ++i) out[i] = Convert<T>(dtype, values[i]);
  });
  return tensor;
}

// Multiplies `value` by `factor`, both at least 0. Returns false where the product does not fit 63 bits.
bool MultiplyInto(int64_t& value, int64_t factor) {
  return !__builtin_mul_overflow(value, factor, &value);
}

}  // namespace

int64_t ElementCount(std::span<const int64_t> shape, std::string_view what) {
  // Dimensions of size 0 are left out of the product until the end, so that strides are checked as well.
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0)
      ThrowInput("{}: shape {} has the negative dimension {}", what, ToString(shape), dim);
    if (dim == 0) {
      empty = true;
    } else if (!MultiplyInto(count, dim)) {
      ThrowInput("{}: shape {} has more elements than 63 bits can count", what, ToString(shape));
    }
  }
  return empty ? 0 : count;
}

int64_t ByteCount(const TensorType& type, std::string_view what) {
  int64_t bytes = ElementCount(type.shape, what);
  if (!MultiplyInto(bytes, SizeOf(type.dtype))) {
    ThrowInput("{}: {} has more bytes than 63 bits can count", what, ToString(type));
  }
  return bytes;
}

std::string ToString(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

std::string ToString(const TensorType& type) {
  return fmt::format("{}{}", Name(type.dtype), ToString(type.shape));
}

HostTensor::HostTensor(DType dtype_in, Shape shape_in)
    : dtype(dtype_in),
      shape(std::move(shape_in)),
      data(static_cast<size_t>(ByteCount({dtype, shape}))) {}

HostTensor MakeTensor(DType dtype, Shape shape, std::span<const double> values) {
  return Make(dtype, std::move(shape), values);
}

HostTensor MakeTensor(DType dtype, Shape shape, std::span<const int64_t> values) {
  return Make(dtype, std::move(shape), values);
}

double AsDouble(const HostTensor& tensor, int64_t index) {
  HEDDLE_CHECK(index >= 0 && index < tensor.size());
  return WithStorage(tensor.dtype, [&]<class T>(T) -> double {
    T stored = tensor.as<T>()[static_cast<size_t>(index)];
    if constexpr (std::is_same_v<T, uint16_t>) {
      return tensor.dtype == DType::kF16 ? HalfToFloat(stored) : BFloat16ToFloat(stored);
    } else {
      return static_cast<double>(stored);
    }
  });
}

int64_t AsInt(const HostTensor& tensor, int64_t index) {
  if (IsFloat(tensor.dtype)) return Truncate<int64_t>(AsDouble(tensor, index));
  HEDDLE_CHECK(index >= 0 && index < tensor.size());
  return WithStorage(tensor.dtype, [&]<class T>(T) {
    return static_cast<int64_t>(tensor.as<T>()[static_cast<size_t>(index)]);
  });
}

float HalfToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in a float
    float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t FloatToHalf(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: keep the top bits of the payload and set the quiet bit
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65536 and above
  if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24, rounded to nearest even
    float scaled = std::ldexp(std::bit_cast<float>(magnitude), 24);
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(scaled)));
  }
  uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t FloatToBFloat16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace heddle
