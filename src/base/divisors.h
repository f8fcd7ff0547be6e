// Divisors of numbers up to 2^63 - 1, such as batch sizes.
//
//   Divisors(12) == {1, 2, 3, 4, 6, 12}
//   LargestDivisorUpTo(100, 30) == 25      SmallestDivisorFrom(100, 30) == 50
//
// Numbers are factored by Pollard's rho method (BIT 15, 1975) with the primality test of Miller and Rabin, which is
// exact for 64 bits with twelve bases (Sorenson and Webster, Math. Comp. 86, 2017). This takes about n^(1/4) steps,
// some milliseconds for any number, where trial division would take seconds.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace heddle {

// The prime factors of n, ascending, each with its exponent. n is at least 1.
std::vector<std::pair<int64_t, int>> PrimeFactors(int64_t n);

// All divisors of n, ascending. n is at least 1; the result has at most 103,680 entries.
std::vector<int64_t> Divisors(int64_t n);

// The largest divisor of n that is at most `limit`. Both are at least 1.
int64_t LargestDivisorUpTo(int64_t n, int64_t limit);

// The smallest divisor of n that is at least `from`. `from` is at most n.
int64_t SmallestDivisorFrom(int64_t n, int64_t from);

}  // namespace heddle
