#include "base/divisors.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/check.h"

namespace heddle {
namespace {

// The compiler's 128-bit integer holds products of 64-bit numbers; -Wpedantic requires __extension__.
__extension__ using Wide = unsigned __int128;

uint64_t TimesModulo(uint64_t a, uint64_t b, uint64_t n) {
  return static_cast<uint64_t>(Wide{a} * b % n);
}

uint64_t PowerModulo(uint64_t base, uint64_t exponent, uint64_t n) {
  uint64_t power = 1;
  for (base %= n; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) power = TimesModulo(power, base, n);
    base = TimesModulo(base, base, n);
  }
  return power;
}

constexpr uint64_t kSmallPrimes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};

// The Miller-Rabin test. n must have no prime factor among kSmallPrimes.
bool IsPrime(uint64_t n) {
  int halvings = 0;
  uint64_t odd = n - 1;
  for (; odd % 2 == 0; odd /= 2) ++halvings;
  for (uint64_t base : kSmallPrimes) {
    uint64_t power = PowerModulo(base, odd, n);
    bool passes = power == 1 || power == n - 1;
    for (int i = 1; i < halvings && !passes; ++i) {
      power = TimesModulo(power, power, n);
      passes = power == n - 1;
    }
    if (!passes) return false;
  }
  return true;
}

// A divisor of a composite n other than 1 and n, by Pollard's rho method: two sequences x -> x^2 + c, one of which
// advances twice as fast, become equal modulo a prime factor long before they become equal modulo n. Where they become
// equal modulo all prime factors at once, another c is tried.
uint64_t ProperDivisor(uint64_t n) {
  for (uint64_t c = 1;; ++c) {
    auto next = [&](uint64_t x) { return static_cast<uint64_t>((Wide{x} * x + c) % n); };
    uint64_t slow = 2, fast = 2, divisor = 1;
    while (divisor == 1) {
      // One greatest common divisor is computed for the product of many differences.
      constexpr int kTogether = 64;
      uint64_t product = 1, slow_before = slow, fast_before = fast;
      for (int i = 0; i < kTogether; ++i) {
        slow = next(slow);
        fast = next(next(fast));
        product = TimesModulo(product, slow > fast ? slow - fast : fast - slow, n);
      }
      divisor = std::gcd(product, n);
      if (divisor != n) continue;
      // The product has all factors of n: the same steps are repeated one at a time.
      slow = slow_before;
      fast = fast_before;
      do {
        slow = next(slow);
        fast = next(next(fast));
        divisor = std::gcd(slow > fast ? slow - fast : fast - slow, n);
      } while (divisor == 1);
    }
    if (divisor != n) return divisor;
  }
}

void AddPrimes(uint64_t n, std::map<int64_t, int>& primes) {
  if (n == 1) return;
  if (IsPrime(n)) {
    ++primes[static_cast<int64_t>(n)];
    return;
  }
  uint64_t divisor = ProperDivisor(n);
  AddPrimes(divisor, primes);
  AddPrimes(n / divisor, primes);
}

}  // namespace

std::vector<std::pair<int64_t, int>> PrimeFactors(int64_t n) {
  HEDDLE_CHECK(n >= 1, "prime factors of {}", n);
  std::map<int64_t, int> primes;
  auto left = static_cast<uint64_t>(n);
  for (uint64_t prime : kSmallPrimes) {
    for (; left % prime == 0; left /= prime) ++primes[static_cast<int64_t>(prime)];
  }
  AddPrimes(left, primes);
  return {primes.begin(), primes.end()};
}

std::vector<int64_t> Divisors(int64_t n) {
  std::vector<int64_t> divisors = {1};
  for (auto [prime, times] : PrimeFactors(n)) {
    size_t before = divisors.size();
    int64_t power = 1;
    for (int i = 0; i < times; ++i) {
      power *= prime;
      for (size_t d = 0; d < before; ++d) divisors.push_back(divisors[d] * power);
    }
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

int64_t LargestDivisorUpTo(int64_t n, int64_t limit) {
  HEDDLE_CHECK(limit >= 1, "a divisor up to {}", limit);
  std::vector<int64_t> divisors = Divisors(n);
  return *(std::upper_bound(divisors.begin(), divisors.end(), limit) - 1);
}

int64_t SmallestDivisorFrom(int64_t n, int64_t from) {
  HEDDLE_CHECK(from <= n, "a divisor of {} from {} on", n, from);
  std::vector<int64_t> divisors = Divisors(n);
  return *std::lower_bound(divisors.begin(), divisors.end(), from);
}

}  // namespace heddle
