// Sums and maxima over members, element by element, in the order of members.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "plan/collective.h"

namespace heddle {

// What a T is summed in.
template <class T>
using Accumulator =
    std::conditional_t<std::is_same_v<T, at::BFloat16> || std::is_same_v<T, at::Half>, float, T>;

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

// Combines gives[member][0..length) and writes the results to every one of `gets`, which may be among the gives.
template <Reduction reduction, class T>
void ReduceRange(std::span<const T* const> gives, std::span<T* const> gets, int64_t length) {
  using A = Accumulator<T>;
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

}  // namespace heddle
