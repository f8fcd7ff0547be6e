// The bytes that a device holds per element of a trained parameter, by kind and period. This is the
// one place that floors, estimates and the quick check of a plan use. sim/memory.h counts the same
// from the program; tests compare the two.
//
//   weights         as nodes read them; throughout the step
//   state           moments and master weights; throughout the step
//   gradients       from the first backward on (with one micro-batch they replace activations)
//   reduced         ZeRO 1: the rank's part of the sum, from the last backward on
//   gathered        ZeRO 3: the whole weights of the layer at work and of the next one
//   unreduced       ZeRO 3: the whole gradients of the layer whose backward ends, until they are reduced
//   outside_layers  ZeRO 3: extra for a parameter outside the layers, whose weights stay whole
#pragma once

#include "plan/plan.h"

namespace heddle {

struct HeldBytes {
  double weights = 0, state = 0, gradients = 0, reduced = 0, gathered = 0, unreduced = 0;
  double outside_layers = 0;
  double on_host = 0;  // on the host of a machine, if the state is offloaded
  // At the peak of activations, and when the last gradient exists.
  double at_peak(bool gradients_there) const {
    return weights + state + (gradients_there ? gradients : 0);
  }
  double at_end() const { return weights + state + gradients + reduced; }
};

// Per element of a parameter of which the share `kept` is not pruned, on one of `ranks` that share
// ZeRO's parts. `once`: a step has one micro-batch.
HeldBytes HeldBytesOf(const Precision& precision, double kept, int zero, double ranks, bool once,
                      Offload offload);

}  // namespace heddle
