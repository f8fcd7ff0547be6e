#include "cost/compute.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "plan/precision.h"

namespace heddle {
namespace {

struct TileShape {
  double m, n;
  double quality;  // of a processor's rate
};
constexpr std::array<TileShape, 5> kTiles = {
    {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.93}, {64, 128, 0.8}, {64, 64, 0.6}}};
constexpr double kStartUp = 64;  // of the sum over k, in elements

}  // namespace

double Occupancy(const Kernel& product, int processors) {
  double best = 0;
  for (const TileShape& tile : kTiles) {
    double tiles = product.b * std::ceil(product.m / tile.m) * std::ceil(product.n / tile.n);
    double waves = std::ceil(tiles / processors);
    double useful = product.b * product.m * product.n;
    best = std::max(best, tile.quality * useful / (waves * processors * tile.m * tile.n));
  }
  return best * product.k / (product.k + kStartUp);
}

ComputeCost::ComputeCost(const DeviceType& device, const DeviceConstants& constants,
                         const StackCosts& stack, const Precision& precision, double slow)
    : device_(device), constants_(constants), stack_(stack), precision_(precision), slow_(slow) {
  bool fp8 = precision.products == Products::kFp8;
  if (fp8 && RateOf(precision.compute, true) == 0) {
    ThrowInput("device '{}' has no rate for fp8: choose another --precision", device.name);
  }
  if (RateOf(precision.compute, false) == 0) {
    ThrowInput("device '{}' has no rate for {}: choose another --precision", device.name,
               Name(precision.compute));
  }
}

double ComputeCost::RateOf(DType dtype, bool fp8) const {
  return PeakRate(device_.peak, dtype, fp8 ? Products::kFp8 : Products::kAsCompute);
}

Terms ComputeCost::Of(const Kernel& kernel) const {
  double traffic = kernel.bytes / (device_.memory_bandwidth * constants_.traffic) * stack_.traffic;
  Terms terms;
  terms[Term::kLaunch] = constants_.launch;
  switch (kernel.kind) {
    case KernelKind::kTraffic:
      terms[Term::kTraffic] = traffic;
      break;
    case KernelKind::kProduct: {
      bool fp8 = kernel.with_parameter && precision_.products == Products::kFp8;
      double rate = RateOf(kernel.dtype, fp8) * (fp8 ? constants_.fp8 : constants_.products) *
                    Occupancy(kernel, constants_.processors);
      double compute = rate > 0 ? kernel.flops / rate * stack_.products : 0;
      if (compute >= traffic) {
        terms[fp8 ? Term::kFp8 : Term::kProducts] = compute;
      } else {
        terms[Term::kTraffic] = traffic;
      }
      break;
    }
    case KernelKind::kAttention: {
      double compute =
          kernel.flops / (RateOf(kernel.dtype, false) * constants_.attention) * stack_.attention;
      terms[compute >= traffic ? Term::kAttention : Term::kTraffic] = std::max(compute, traffic);
      break;
    }
  }
  for (double& seconds : terms.seconds) seconds *= slow_;
  return terms;
}

Terms ComputeCost::Joined(const Kernel& kernel) const {
  Terms terms = Of(kernel);
  terms[Term::kLaunch] = 0;
  return terms;
}

Terms ComputeCost::Traffic(double bytes) const {
  Kernel kernel;
  kernel.bytes = bytes;
  return Of(kernel);
}

// Reads the gradient; reads and writes master weight and two moments; writes the weight compute uses.
Terms ComputeCost::Update(double elements, const Precision& precision) const {
  double master = static_cast<double>(SizeOf(precision.master));
  double bytes = static_cast<double>(SizeOf(precision.gradients)) +
                 2 * (master + 2 * static_cast<double>(SizeOf(precision.moments)));
  if (precision.master != precision.compute) {
    bytes += static_cast<double>(SizeOf(precision.compute));
  }
  Terms terms;
  terms[Term::kOptimizer] =
      slow_ * elements * bytes / (device_.memory_bandwidth * constants_.traffic) * stack_.traffic;
  terms[Term::kLaunch] = slow_ * constants_.launch;
  return terms;
}

Terms ComputeCost::Host() const {
  Terms terms;
  terms[Term::kHost] = slow_ * stack_.host;
  return terms;
}

}  // namespace heddle
