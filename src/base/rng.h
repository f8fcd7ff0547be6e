// Random numbers as a pure function of (seed, stream, counter). There is no state: any element can be drawn on any
// rank, in any order, and is the same on every machine.
//
// The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). The seed is
// the key; stream and counter are the two halves of the 128-bit counter. It has 10 rounds and takes about 15 ns.
//
//   double x = RandomNormal(seed, /*stream=*/node, /*counter=*/element);
#pragma once

#include <array>
#include <cstdint>

namespace heddle {

// One block: four words computed from a counter and a key.
constexpr std::array<std::uint32_t, 4> Philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

constexpr std::uint64_t RandomBits(std::uint64_t seed, std::uint64_t stream,
                                   std::uint64_t counter) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const auto words =
      Philox({low(counter), high(counter), low(stream), high(stream)}, {low(seed), high(seed)});
  return words[0] | std::uint64_t{words[1]} << 32;
}

// Uniform in [0, 1): a multiple of 2^-53.
constexpr double RandomUniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  return static_cast<double>(RandomBits(seed, stream, counter) >> 11) * 0x1p-53;
}

// Uniform in 0 .. bound-1; bound must be positive. The bias is below bound / 2^64.
constexpr std::uint64_t RandomBelow(std::uint64_t bound, std::uint64_t seed, std::uint64_t stream,
                                    std::uint64_t counter) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{RandomBits(seed, stream, counter)} * bound >> 64);
}

// Standard normal. Only + - * / and sqrt are used, so that the result does not depend on libm.
double RandomNormal(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter);

// The quantile of the standard normal at 0 < p < 1, relative error about 1e-15.
double NormalQuantile(double p);

}  // namespace heddle
