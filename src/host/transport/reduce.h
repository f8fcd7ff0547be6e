// Sums and maxima over members, element by element, in the order of members.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "plan/collective.h"

namespace heddle {

// The type in which elements T are summed. Specialised for the 16-bit floats of libtorch, which are summed in f32.
template <class T>
struct AccumulatorOf {
  using Type = T;
};

template <class A>
A Combine(Reduction reduction, A a, A b) {
  if constexpr (std::is_same_v<A, bool>) {
    return a || b;
  } else if (reduction == Reduction::kMax) {
    if constexpr (std::floating_point<A>) {
      return a > b || std::isnan(a) ? a : b;
    } else {
      return std::max(a, b);
    }
  } else if constexpr (std::integral<A>) {
    using Unsigned = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

// Combines gives[member][0..length) and writes the results to each of `gets`, which may be among the gives.
template <Reduction reduction, class T>
void ReduceRange(std::span<const T* const> gives, std::span<T* const> gets, int64_t length) {
  using A = typename AccumulatorOf<T>::Type;
  constexpr int64_t kBlock = 2048;
  std::array<A, kBlock> sums;
  for (int64_t begin = 0; begin < length; begin += kBlock) {
    const int64_t count = std::min(kBlock, length - begin);
    const T* first = gives[0] + begin;
    for (int64_t i = 0; i < count; ++i) sums[static_cast<size_t>(i)] = static_cast<A>(first[i]);
    for (const T* give : gives.subspan(1)) {
      const T* from = give + begin;
      for (int64_t i = 0; i < count; ++i) {
        A& sum = sums[static_cast<size_t>(i)];
        sum = Combine<A>(reduction, sum, static_cast<A>(from[i]));
      }
    }
    for (T* get : gets) {
      for (int64_t i = 0; i < count; ++i)
        get[begin + i] = static_cast<T>(sums[static_cast<size_t>(i)]);
    }
  }
}

// ReduceRange for elements T in plain memory.
template <class T>
void ReduceBytes(Reduction reduction, std::span<const std::byte* const> gives,
                 std::span<std::byte* const> gets, int64_t length) {
  std::vector<const T*> typed_gives;
  for (const std::byte* give : gives) typed_gives.push_back(reinterpret_cast<const T*>(give));
  std::vector<T*> typed_gets;
  for (std::byte* get : gets) typed_gets.push_back(reinterpret_cast<T*>(get));
  if (reduction == Reduction::kSum) {
    ReduceRange<Reduction::kSum, T>(typed_gives, typed_gets, length);
  } else {
    ReduceRange<Reduction::kMax, T>(typed_gives, typed_gets, length);
  }
}

}  // namespace heddle
