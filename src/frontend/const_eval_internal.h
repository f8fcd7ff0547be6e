// Shared by the families in const_eval_*.cc: the input of an evaluator, and loops over strided storage.
//
// To add an op, add one entry to the list of its family. An evaluator works on the operands' storage, whose repeated
// dimensions have size 1, and returns storage that may have such dimensions, too.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "frontend/const_eval.h"
#include "graph/graph.h"
#include "graph/tensor.h"

namespace heddle::const_eval {

// The largest storage of a result.
inline constexpr int64_t kMaxStorageBytes = int64_t{64} << 20;
// Larger results are not checked for repetition.
inline constexpr int64_t kMaxCompressElements = int64_t{4} << 20;

using Results = std::optional<std::vector<ConstTensor>>;

// One evaluation. An operand with a dimension of 0 has dense (empty) storage. At least one result has elements.
struct Call {
  std::string_view op;
  const Attributes& attributes;
  std::span<const ConstTensor> operands;
  std::span<const TensorType> result_types;

  const ConstTensor& operand(size_t i = 0) const { return operands[i]; }
  const Shape& shape(size_t i = 0) const { return operands[i].shape; }
  const HostTensor& storage(size_t i = 0) const { return *operands[i].storage; }
};

struct Entry {
  std::string_view op;
  size_t min_operands;
  Results (*evaluate)(const Call&);
};

// The families, each in a fixed order.
std::span<const Entry> UnaryEntries();
std::span<const Entry> BinaryEntries();  // includes Where and MatMul
std::span<const Entry> MovementEntries();
std::span<const Entry> IndexEntries();
std::span<const Entry> ReduceEntries();

// --- Results -------------------------------------------------------------------------------------

// Zero-filled storage; empty where it would exceed kMaxStorageBytes.
std::optional<HostTensor> Allocate(DType dtype, Shape shape);
bool ExceedsCap(DType dtype, const Shape& shape);

enum class Compression : bool { kNone, kTry };

// Result `index` of the call with the given storage, cast to the type that the rule gives. Throws an InputError where
// the storage does not match the shape that the rule gives.
ConstTensor MakeResult(const Call& call, size_t index, std::shared_ptr<const HostTensor> storage);
ConstTensor MakeResult(const Call& call, size_t index, HostTensor storage, Compression compression);

// The result list of an op with one result.
Results One(const Call& call, HostTensor storage, Compression compression = Compression::kNone);

// --- Storage -------------------------------------------------------------------------------------

// Casts element by element like the op Cast: floats are truncated towards zero and saturate (NaN gives 0), integers
// wrap, bool is "not zero".
HostTensor CastStorage(const HostTensor& tensor, DType dtype);

// Like CastStorage; returns the same pointer where the type does not change.
std::shared_ptr<const HostTensor> InType(const std::shared_ptr<const HostTensor>& tensor,
                                         DType dtype);

// The type of arithmetic: f32 for 16-bit floats, i64 for all integers and bool.
DType Domain(DType dtype);

// The tensor with the given dimensions stored in full; empty where that exceeds the limit.
std::optional<ConstTensor> Unrepeat(const ConstTensor& tensor, const std::vector<bool>& dims);
std::optional<ConstTensor> Unrepeat(const ConstTensor& tensor, size_t dim);
std::optional<HostTensor> Dense(const ConstTensor& tensor);

// Stores dimensions along which the storage repeats with size 1.
HostTensor CompressStorage(HostTensor tensor);

// --- Checks --------------------------------------------------------------------------------------

// The attribute "axis". Throws an InputError where it is out of range for `rank`.
size_t AxisAttr(const Call& call, size_t rank);

// Makes an index that counts from the end non-negative. Throws an InputError where it is out of range.
[[noreturn]] void ThrowIndex(const Call& call, int64_t index, int64_t bound);
inline int64_t NormalIndex(const Call& call, int64_t index, int64_t bound) {
  const int64_t normal = index < 0 ? index + bound : index;
  if (normal < 0 || normal >= bound) ThrowIndex(call, index, bound);
  return normal;
}

// --- Strided loops -------------------------------------------------------------------------------

// Row-major strides in elements, aligned right to `rank` dimensions. Dimensions of size 1 have stride 0, so that the
// strides can be used for broadcasting.
Shape BroadcastStrides(std::span<const int64_t> dims, size_t rank);
inline Shape BroadcastStrides(std::span<const int64_t> dims) {
  return BroadcastStrides(dims, dims.size());
}

// Visits a box of elements of N tensors row by row: row(offsets, n, steps) covers the n elements at offsets[k] + i *
// steps[k]. Adjacent dimensions are merged where all tensors allow it, so dense tensors are a single row. Steps are 0
// or 1 where all strides come from BroadcastStrides of shapes that broadcast to `dims`.
template <size_t N, class Row>
void ForEachRow(std::span<const int64_t> dims, const std::array<Shape, N>& strides, Row&& row) {
  for (const int64_t size : dims) {
    if (size == 0) return;
  }
  std::vector<int64_t> sizes;
  std::array<std::vector<int64_t>, N> steps;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    bool merges = !sizes.empty();
    for (size_t k = 0; k < N && merges; ++k) merges = steps[k].back() == strides[k][d] * dims[d];
    if (!merges) sizes.push_back(1);
    sizes.back() *= dims[d];
    for (size_t k = 0; k < N; ++k) {
      if (!merges) steps[k].push_back(0);
      steps[k].back() = strides[k][d];
    }
  }
  std::array<int64_t, N> offsets{};
  std::array<int64_t, N> inner{};
  if (sizes.empty()) return row(std::as_const(offsets), int64_t{1}, std::as_const(inner));
  const size_t last = sizes.size() - 1;
  for (size_t k = 0; k < N; ++k) inner[k] = steps[k][last];
  std::vector<int64_t> position(last, 0);
  while (true) {
    row(std::as_const(offsets), sizes[last], std::as_const(inner));
    size_t d = last;
    while (d > 0) {
      --d;
      for (size_t k = 0; k < N; ++k) offsets[k] += steps[k][d];
      if (++position[d] < sizes[d]) break;
      for (size_t k = 0; k < N; ++k) offsets[k] -= steps[k][d] * sizes[d];
      position[d] = 0;
      if (d == 0) return;
    }
    if (last == 0) return;
  }
}

// Calls f with a step of 0 or 1 as a compile-time constant.
template <class F>
void WithStep(int64_t step, F&& f) {
  if (step == 1) {
    f(std::integral_constant<int64_t, 1>{});
  } else {
    f(std::integral_constant<int64_t, 0>{});
  }
}

// A block of elements in a storage: its first element and its stride per dimension.
struct Strided {
  int64_t base = 0;
  Shape strides;
};

// Copies a box of elements between tensors of one dtype.
void CopyBox(std::span<const int64_t> dims, const HostTensor& source, const Strided& from,
             HostTensor& target, const Strided& to);

// --- Types ---------------------------------------------------------------------------------------

template <class T>
inline constexpr DType kDTypeOf = std::is_same_v<T, float>    ? DType::kF32
                                  : std::is_same_v<T, double> ? DType::kF64
                                                              : DType::kI64;

// Calls f with a zero of the C++ type of a domain: float, double or int64_t.
template <class F>
auto VisitDomain(DType domain, F&& f) {
  if (domain == DType::kF32) return f(float{});
  if (domain == DType::kF64) return f(double{});
  return f(int64_t{});
}

// Calls f with a zero of the unsigned type that has the size of an element.
template <class F>
auto VisitBits(DType dtype, F&& f) {
  switch (SizeOf(dtype)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

// Sums of floats are accumulated in double and rounded once; sums of integers wrap.
template <class T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

// A float as an integer: truncated and saturated; NaN gives 0.
template <class Int, class Float>
Int SaturatingCast(Float value) {
  constexpr Float kBelow = static_cast<Float>(std::numeric_limits<Int>::min());
  constexpr Float kAbove = static_cast<Float>(std::numeric_limits<Int>::max() / 2 + 1) * Float{2};
  if (std::isnan(value)) return 0;
  if (value < kBelow) return std::numeric_limits<Int>::min();
  if (value >= kAbove) return std::numeric_limits<Int>::max();
  return static_cast<Int>(value);
}

// Arithmetic in which integers wrap.
template <class T>
T WrapAdd(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
template <class T>
T WrapSub(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  } else {
    return a - b;
  }
}
template <class T>
T WrapMul(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

// base^exponent for exponent >= 0; wraps.
int64_t WrapPow(int64_t base, int64_t exponent);

}  // namespace heddle::const_eval
