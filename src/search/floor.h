// A lower bound on the step of any plan of a configuration.
//
// A device of the pipeline computes and waits for m micro-batches of its units (range_floors.h), after the stages before it
// have done their first forward. Then either the stages before it do their last backward, or it reduces, updates and
// gathers its parameters. Its memory holds its parameters' state and the activations of the micro-batches in flight; what
// does not fit is recomputed, and that adds to its time. So X is a bound if stages that take as many units as X and memory
// allow cannot take them all; and X is bisected. Taking as many as possible early is never wrong: a unit more shortens
// what is left by at least what it adds to the wait of those after it.
//
// Stages of an interleaved schedule are of n or n - 1 layers (plan/units.h, EvenCut): a device has v of them, and no device
// does less than its share. docs/planner.md derives each term.
#pragma once

#include <vector>

#include "plan/units.h"
#include "search/configuration.h"
#include "search/prices.h"

namespace heddle {

// Time and memory together, where memory is worth something: a stage takes at least the worth of its units less that of a
// device's memory (Lagrange), per micro-batch.
struct MemoryWorth {
  double per_byte = 0;                          // seconds of a micro-batch
  std::vector<const RangeFloors*> least = {};  // per device of the pipeline; of all policies
};

struct FloorProblem {
  const LeastTime* time = nullptr;   // under the policy that takes least time of those allowed
  const LeastTime* plain = nullptr;  // with nothing recomputed, allowed or not
  const LeastRoom* room = nullptr;   // of the policies allowed; null: memory does not count
  double update = 0;       // seconds per parameter, of the device
  double host_update = 0;  // ... of copies from and to the host beside it; these begin a little before the last backward
  double early = 0;        // has ended, by at most so many seconds
  double bytes_per_parameter = 0;     // while activations are most and no gradient is there yet
  double gradient_bytes = 0;          // of a parameter's gradient, from the first backward on
  double gathered_bytes = 0;          // of a parameter, of the layer at work: what ZeRO 3 has gathered
  double reduce = 0, gather = 0;      // seconds of a step per parameter, once its last gradient is there
  double traffic = 0;  // seconds of a step per parameter, at any time, over the data axis
  double layer_traffic = 0;  // ... more per parameter of a layer: ZeRO 3 gathers these for every micro-batch
  double host = 0;                    // seconds per forward, and per backward, of a micro-batch and stage
  double limit = 0;                   // bytes
  ModelUnits units = {};  // which of them are layers
  std::vector<MemoryWorth> worths = {};
};

// The micro-batches in flight on a device of the pipeline when they are most, at least, as a number of its stages; and
// whether they are as many again once all of its gradients are there.
struct InFlight {
  double most = 1;
  bool with_gradients = false;
};
InFlight LeastInFlight(const Configuration& configuration, int device);

// kForbidden where memory does not suffice whatever is done.
double FloorOf(const Configuration& configuration, const FloorProblem& problem);

}  // namespace heddle
