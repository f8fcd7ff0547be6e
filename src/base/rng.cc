// NormalQuantile is algorithm AS 241 (PPND16) of M. J. Wichura, Applied Statistics 37, 1988: a rational function of p
// near the middle and of sqrt(-log p) in the tails. The logarithm is computed here, because libraries differ in its
// last bit: log x = e log 2 + 2 atanh((m - 1) / (m + 1)) for x = m 2^e. The series of atanh has enough terms for |s| <=
// 0.172.
#include "base/rng.h"

#include <cmath>

namespace heddle {
namespace {

// x must be positive and normal.
double Log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // exact; in [0.5, 1)
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  const double s2 = s * s;
  double sum = 0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return exponent * 0.69314718055994531 + 2 * s * sum;
}

// Coefficients are in ascending order, from the constant term.
double Polynomial(const std::array<double, 8>& c, double x) {
  double sum = 0;
  for (int i = 7; i >= 0; --i) sum = sum * x + c[static_cast<std::size_t>(i)];
  return sum;
}

constexpr std::array<double, 8> kA = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                      1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                      4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                      3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr std::array<double, 8> kB = {1.0,
                                      4.2313330701600911252e+1,
                                      6.8718700749205790830e+2,
                                      5.3941960214247511077e+3,
                                      2.1213794301586595867e+4,
                                      3.9307895800092710610e+4,
                                      2.8729085735721942674e+4,
                                      5.2264952788528545610e+3};
constexpr std::array<double, 8> kC = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                      5.76949722146069140550e0,  3.64784832476320460504e0,
                                      1.27045825245236838258e0,  2.41780725177450611770e-1,
                                      2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr std::array<double, 8> kD = {1.0,
                                      2.05319162663775882187e0,
                                      1.67638483018380384940e0,
                                      6.89767334985100004550e-1,
                                      1.48103976427480074590e-1,
                                      1.51986665636164571966e-2,
                                      5.47593808499534494600e-4,
                                      1.05075007164441684324e-9};
constexpr std::array<double, 8> kE = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                      1.78482653991729133580e0,  2.96560571828504891230e-1,
                                      2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                      2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr std::array<double, 8> kF = {1.0,
                                      5.99832206555887937690e-1,
                                      1.36929880922735805310e-1,
                                      1.48753612908506148525e-2,
                                      7.86869131145613259100e-4,
                                      1.84631831751005468180e-5,
                                      1.42151175831644588870e-7,
                                      2.04426310338993978564e-15};

}  // namespace

double NormalQuantile(double p) {
  const double q = p - 0.5;
  if (q >= -0.425 && q <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial(kA, r) / Polynomial(kB, r);
  }
  const double r = std::sqrt(-Log(q < 0 ? p : 1 - p));
  const double x = r <= 5 ? Polynomial(kC, r - 1.6) / Polynomial(kD, r - 1.6)
                          : Polynomial(kE, r - 5) / Polynomial(kF, r - 5);
  return q < 0 ? -x : x;
}

double RandomNormal(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  // The middle of one of 2^52 equal cells: never 0 or 1, and symmetric around 0.5.
  const double cell = static_cast<double>(RandomBits(seed, stream, counter) >> 12);
  return NormalQuantile((cell + 0.5) * 0x1p-52);
}

}  // namespace heddle
