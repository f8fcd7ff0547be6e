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
  double quality;  // fraction of a processor's rate that the tile shape reaches
};
constexpr std::array<TileShape, 5> kTiles = {
    {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.93}, {64, 128, 0.8}, {64, 64, 0.6}}};
// Elements of the sum over k that pass before a product reaches its full rate.
constexpr double kStartUp = 64;

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
  if (constants_.measured && !constants_.measured->kernels.contains(Name(precision.compute))) {
    ThrowInput(
        "the profile of device '{}' has no measurements in {}: calibrate with --precision {}",
        device.name, Name(precision.compute), Name(precision.compute));
  }
}

const KernelTimes& ComputeCost::TimesOf(DType dtype) const {
  const auto& kernels = constants_.measured->kernels;
  auto found = kernels.find(Name(dtype));
  return found != kernels.end() ? found->second : kernels.find(Name(precision_.compute))->second;
}

Terms ComputeCost::Measured(const Kernel& kernel) const {
  const LoadTimes& load = *constants_.measured;
  const KernelTimes& times = TimesOf(kernel.dtype);
  auto curve = [&](std::string_view op) -> const TimeCurve* {
    auto found = times.ops.find(op);
    if (found == times.ops.end()) return nullptr;
    const TimeCurve& half = kernel.backward ? found->second.backward : found->second.forward;
    return half.empty() ? nullptr : &half;
  };
  auto rated = [&](TimeTable which, double flops) {
    const RateTable& table = times.table(which);
    if (table.empty()) {
      ThrowInput("the profile of device '{}' has no rates of {}: calibrate again", device_.name,
                 kTimeTableNames[static_cast<size_t>(which)]);
    }
    return flops / table.RateAt(kernel.m, kernel.n, kernel.k);
  };
  const TimeCurve* own = curve(kernel.op);
  Terms terms;
  switch (kernel.kind) {
    case KernelKind::kTraffic:
      if (own == nullptr) own = curve("Mul");
      terms[Term::kTraffic] =
          own != nullptr ? own->SecondsAt(kernel.moved) : load.copy.SecondsAt(kernel.bytes);
      break;
    case KernelKind::kProduct:
      terms[Term::kLaunch] = own != nullptr ? 0 : load.launch;
      terms[Term::kProducts] =
          own != nullptr ? own->SecondsAt(kernel.flops) : rated(TimeTable::kProduct, kernel.flops);
      break;
    case KernelKind::kAttention: {
      double flops = 4 * kernel.b * kernel.m * kernel.n * kernel.k;
      if (kernel.backward) {
        TimeTable table =
            kernel.causal ? TimeTable::kCausalBackward : TimeTable::kAttentionBackward;
        terms[Term::kAttention] = rated(table, 2 * flops);
      } else {
        TimeTable table = kernel.causal ? TimeTable::kCausal : TimeTable::kAttention;
        terms[Term::kAttention] = rated(table, flops);
      }
      break;
    }
  }
  for (double& seconds : terms.seconds) seconds *= slow_;
  return terms;
}

double ComputeCost::RateOf(DType dtype, bool fp8) const {
  return PeakRate(device_.peak, dtype, fp8 ? Products::kFp8 : Products::kAsCompute);
}

Terms ComputeCost::Of(const Kernel& kernel) const {
  if (constants_.measured) return Measured(kernel);
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
  if (!constants_.measured) return Of(kernel);
  Terms terms;
  terms[Term::kTraffic] = slow_ * constants_.measured->copy.SecondsAt(bytes);
  return terms;
}

// An update reads the gradient, reads and writes master weight and moments, and writes the weight that compute uses.
Terms ComputeCost::Update(double elements, const Precision& precision) const {
  double master = static_cast<double>(SizeOf(precision.master));
  auto moved = [&](int moments) {
    return static_cast<double>(SizeOf(precision.gradients)) +
           2 * (master + moments * static_cast<double>(SizeOf(precision.moments)));
  };
  double bytes = moved(precision.moments_kept);
  if (precision.master != precision.compute) {
    bytes += static_cast<double>(SizeOf(precision.compute));
  }
  Terms terms;
  if (constants_.measured && !constants_.measured->update.empty()) {
    const LoadTimes& load = *constants_.measured;
    double seconds = load.update.SecondsAt(elements);  // measured for Adam
    seconds *= moved(precision.moments_kept) / moved(2);
    if (precision.master != precision.compute) {
      double narrowed = elements * (master + static_cast<double>(SizeOf(precision.compute)));
      seconds += load.copy.SecondsAt(narrowed);
    }
    terms[Term::kOptimizer] = slow_ * seconds;
    return terms;
  }
  terms[Term::kOptimizer] =
      slow_ * elements * bytes / (device_.memory_bandwidth * constants_.traffic) * stack_.traffic;
  terms[Term::kLaunch] = slow_ * constants_.launch;
  return terms;
}

Terms ComputeCost::HostCopy(double bytes) const {
  Terms terms;
  terms[Term::kLatency] = slow_ * device_.host.latency;
  terms[Term::kNear] = slow_ * bytes / device_.host.bandwidth;
  return terms;
}

Terms ComputeCost::Host() const {
  Terms terms;
  if (!constants_.measured) terms[Term::kHost] = slow_ * stack_.host;
  return terms;
}

Terms ComputeCost::Autograd() const {
  Terms terms;
  if (constants_.measured) {
    terms[Term::kHost] = slow_ * constants_.measured->backward;
  }
  return terms;
}

Terms ComputeCost::Report() const {
  Terms terms;
  if (constants_.measured) terms[Term::kHost] = slow_ * constants_.measured->host;
  return terms;
}

Terms ComputeCost::View() const {
  Terms terms;
  if (constants_.measured) terms[Term::kLaunch] = slow_ * constants_.measured->view;
  return terms;
}

std::optional<double> ComputeCost::Transfer(std::string_view kind, double bytes) const {
  if (!constants_.measured) return std::nullopt;
  auto found = constants_.measured->transfers.find(kind);
  if (found == constants_.measured->transfers.end()) return std::nullopt;
  return slow_ * found->second.SecondsAt(bytes);
}

}  // namespace heddle
