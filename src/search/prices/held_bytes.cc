#include "search/prices/held_bytes.h"

namespace heddle {
namespace {

constexpr double kIndexBytes = 4;  // per kept weight of a pruned parameter

double ElementBytes(DType dtype) { return static_cast<double>(SizeOf(dtype)); }

// Of moments and master weights.
double StateBytes(const Precision& precision, double kept, int zero) {
  double bytes = precision.moments_kept * ElementBytes(precision.moments);
  bool apart = precision.master != precision.compute || (kept < 1 && zero != 3);
  if (apart) bytes += ElementBytes(precision.master);
  return kept * bytes;
}

}  // namespace

HeldBytes HeldBytesOf(const Precision& precision, double kept, int zero, double ranks, bool once,
                      Offload offload) {
  HeldBytes held;
  double index = kept < 1 ? kept * kIndexBytes : 0;
  double weight = ElementBytes(precision.compute),
         gradient = kept * ElementBytes(precision.gradients);
  double parts = zero > 0 ? ranks : 1;
  double state = StateBytes(precision, kept, zero) / parts;
  (offload == Offload::kOptimizer ? held.on_host : held.state) = state;
  held.weights = weight + index;
  held.gradients = gradient;
  // The gradients of a single micro-batch are reduced at once instead of being accumulated.
  if (zero == 2 || (zero == 1 && once)) {
    held.gradients = gradient / ranks;
  } else if (zero == 1) {
    held.reduced = gradient / ranks;
  } else if (zero == 3) {
    held.weights = kept * weight / ranks + index;
    held.gradients = gradient / ranks;
    held.gathered = ranks > 1 ? weight : 0;
    held.unreduced = ranks > 1 ? gradient : 0;
    held.outside_layers = kept * weight * (1 - 1 / ranks);
  }
  return held;
}

}  // namespace heddle
