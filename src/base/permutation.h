// A pseudo-random permutation of 0 .. size-1 without a table. Each position can be computed alone, in any order and on
// any rank, from (seed, stream).
//
//   Permutation order(windows, seed, /*stream=*/epoch);
//   for (int64_t i = 0; i < windows; ++i) Visit(order(i));     // every window once
//
// It is a Feistel network over the next even power of two, with Philox (base/rng.h) as its round function, applied
// repeatedly until the result is below `size` (cycle walking: Black and Rogaway, "Ciphers with arbitrary finite
// domains", 2002). The domain is less than four times `size`, so a position takes fewer than four applications on
// average.
#pragma once

#include <bit>
#include <cstdint>

#include "base/check.h"
#include "base/rng.h"

namespace heddle {

class Permutation {
 public:
  Permutation(int64_t size, uint64_t seed, uint64_t stream)
      : size_(static_cast<uint64_t>(size)), seed_(seed), stream_(stream) {
    HEDDLE_CHECK_GT(size, 0);
    half_bits_ = (static_cast<int>(std::bit_width(size_ - 1)) + 1) / 2;
    if (half_bits_ == 0) half_bits_ = 1;
  }

  int64_t size() const { return static_cast<int64_t>(size_); }

  // 0 <= index < size().
  int64_t operator()(int64_t index) const {
    auto place = static_cast<uint64_t>(index);
    HEDDLE_CHECK_LT(place, size_);
    do {
      place = Encrypt(place);
    } while (place >= size_);
    return static_cast<int64_t>(place);
  }

 private:
  static constexpr uint64_t kRounds = 6;

  uint64_t Encrypt(uint64_t block) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = block >> half_bits_, right = block & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = left ^ (RandomBits(seed_, stream_, round << 32 | right) & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  uint64_t size_, seed_, stream_;
  int half_bits_ = 1;
};

}  // namespace heddle
