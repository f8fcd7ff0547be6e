// What a device holds of a parameter that is trained, by kind, and from when on: the one place that says so for floors,
// estimates and the quick check of a plan. sim/memory.h counts the same from the program; tests compare the two.
//
//   weights    as nodes read them; all of the step
//   state      moments and master weights; all of the step
//   gradients  from the first backward on (with one micro-batch they come as activations go)
//   reduced    ZeRO 1: the rank's part of the sum, from the last backward on
//   gathered   ZeRO 3: the weights of the layer at work and of the next one, whole for a while
//   unreduced  ZeRO 3: the gradients of the layer whose backward ends, whole until they are reduced
//   loose      ZeRO 3: of a parameter that is no layer's, whose weights stay whole, more than of others
#pragma once

#include "plan/plan.h"

namespace heddle {

struct HeldBytes {
  double weights = 0, state = 0, gradients = 0, reduced = 0, gathered = 0, unreduced = 0;
  double outside_layers = 0;
  double on_host = 0;  // of a machine, where the state is there
  // While activations are most, and when the last gradient is there.
  double at_peak(bool gradients_there) const {
    return weights + state + (gradients_there ? gradients : 0);
  }
  double at_end() const { return weights + state + gradients + reduced; }
};

// Per element, of which the share `kept` is not pruned away, on one of `ranks` that share ZeRO's parts.
HeldBytes HeldBytesOf(const Precision& precision, double kept, int zero, double ranks, bool once,
                      Offload offload);

}  // namespace heddle
