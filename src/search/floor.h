// A lower bound on the step of any plan of a configuration.
//
// A device of stage i computes and waits for m micro-batches of its layers and then updates its parameters; before its
// first forward and after its last backward the stages before it do theirs. Its memory holds its parameters' state and
// the activations of the micro-batches in flight. Per layer no strategy does with less than LeastTime and LeastRoom (prices.h) say, under
// one of the policies of recomputation. So a bound X holds exactly if stages that take as many whole layers as X and
// memory allow cannot take them all; and X is bisected. Taking as many as possible early is never wrong: one layer more
// leaves each stage after it at most one layer less in all.
#pragma once

#include <array>

#include "search/configuration.h"
#include "search/prices.h"

namespace heddle {

// Time and memory together, where memory is worth something: a stage of n layers takes at least the worth of n layers
// less that of a device's memory (Lagrange), per micro-batch.
struct MemoryWorth {
  double per_byte = 0;                // seconds of a micro-batch
  std::vector<LayerSums> least = {};  // per device of the pipeline; the least of all policies
};

struct FloorProblem {
  // By policy of recomputation; null: not allowed. Without `rooms` memory does not count.
  std::array<const LeastTime*, 3> times = {};
  const LeastTime* plain =
      nullptr;  // with nothing recomputed, allowed or not; null: the fastest of `times`
  std::array<const LeastRoom*, 3> rooms = {};
  double update = 0;  // seconds per parameter
  double early = 0;  // of the updates of a device, at most so many seconds beside the last backward
  double bytes_per_parameter = 0;  // that are there while activations are
  double traffic = 0;              // seconds of a step per parameter, over the data axis
  double host = 0;   // seconds per forward, and per backward, of a micro-batch and stage
  double limit = 0;  // bytes
  std::vector<MemoryWorth> worths = {};
};

// Micro-batches in flight on a device of the pipeline, at least.
double LeastInFlight(const Configuration& configuration, int device);

// kForbidden where memory does not suffice whatever is done.
double FloorOf(const Configuration& configuration, const FloorProblem& problem);

}  // namespace heddle
