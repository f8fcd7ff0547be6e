// A lower bound on the step of any plan of a configuration.
//
// A device of the pipeline computes and waits for m micro-batches of its units (range_floors.h), after the stages before it
// have done their first forward. Then the stages before it do their last backward. All devices update their parameters
// when all gradients are reduced, and gather what was updated. A device's memory holds its parameters' state and the
// activations of the micro-batches in flight; what does not fit is recomputed, and that adds to its time. So X is a bound if
// stages that take as many units as X and memory allow cannot take them all; and X is bisected. Taking as many as possible
// early is never wrong: a unit more shortens what is left by at least what it adds to the wait of those after it.
//
// Stages of an interleaved schedule are of n or n - 1 layers (plan/units.h, EvenCut): a device has v of them
// (floor_interleaved.cc). docs/planner.md derives each term.
#pragma once

#include <vector>

#include "plan/units.h"
#include "search/explore/configuration.h"
#include "search/prices/prices.h"

namespace heddle {

// Time and memory together, where memory is worth something: a stage takes at least the worth of its units less that of a
// device's memory (Lagrange), per micro-batch.
struct MemoryPrice {
  double per_byte = 0;  // seconds of a micro-batch
  std::vector<const RangeFloors*> least =
      {};  // per stage, in the order of the data; of all policies
};

// Time and traffic of parameters together: a step takes at least any mixture of what devices compute and what passes over
// the data axis, and strategies that are best for one are not for the other.
struct TrafficPrice {
  double own = 1;                      // the share of computation; the rest is that of traffic
  const RangeFloors* least = nullptr;  // per micro-batch, of both, over `own`
  double apart = 0;                    // seconds of a step counted too much, on all devices
  bool after_forward = false;  // the traffic is only what a forward of all units comes before
};

// Factors on the terms of the bound. All are 1, but in the test that raises each of them and must see the bound refuted.
struct TermScales {
  double own = 1;         // seconds that a device computes and waits
  double host = 1;        // seconds of the host for every half of a micro-batch
  double recomputed = 1;  // seconds that recomputation adds
  double kept = 1;        // bytes of activations in flight
  double state = 1;       // bytes of parameters, gradients and optimizer state
  double wait = 1;        // forwards before a stage's first, backwards after its last
  double transfer = 1;    // sends between stages, on the way of the first and last micro-batch
  double path = 1;        // a micro-batch's way through all units and back
  double reduction = 1;   // of gradients, once the last of them are there
  double update = 1;      // of parameters
  double gather = 1;      // of what was updated
  double report = 1;      // the all-reduce of loss and gradient norm before updates
  double traffic = 1;     // everything that passes over the data axis
  double statistics = 1;  // of batch normalisation, over the data axis
  double priced_memory = 1;  // computation and memory, of the same strategies
  double layers = 1;      // latencies of ZeRO 3's layers, and weights gathered for W
  double mixed = 1;       // computation and traffic of parameters, of the same strategies
  double ended = 1;       // computation and the end of the step, of the same strategies
  double turn = 1;        // a forward of all units, then a device's backwards
  double groups = 1;      // reductions of groups of gradients, one after the other
  double gathers = 1;     // ZeRO 3: of the first and the last layer, for which a micro-batch waits
};

struct FloorProblem {
  const LeastTime* time = nullptr;   // under the policy that takes least time of those allowed
  const LeastTime* plain = nullptr;  // with nothing recomputed, allowed or not
  const LeastRoom* room = nullptr;   // of the policies allowed; null: memory does not count
  double update = 0;                 // seconds per parameter, of the device
  double host_update =
      0;  // ... of copies from and to the host beside it; these begin a little before the last backward
  double early = 0;                // has ended, by at most so many seconds
  double bytes_per_parameter = 0;  // while activations are most and no gradient is there yet
  double gradient_bytes = 0;       // of a parameter's gradient, from the first backward on
  // ZeRO 3: of a parameter of the layer at work and of the layer gathered ahead; and of a parameter of the layer whose
  // backward ends, its gradient before it is reduced.
  double gathered_bytes = 0, unreduced_bytes = 0;
  double loose_bytes = 0;  // ZeRO 3: of a parameter that is no layer's, more than of others
  // The gradients, whole, of parameters that the head and others read: on a device that has all units, once the head's backward
  // has ended.
  double tied_bytes = 0;
  double reduce = 0;  // seconds per parameter of the last reduction, once its gradient is there
  double gather = 0;  // seconds per parameter, once it is updated
  double loose_gather = 0;                        // likewise, of what is no layer: ZeRO 3
  double reduce_latency = 0, gather_latency = 0;  // seconds of one such collective
  bool reduces_beside = true;                     // backward; else after it
  // All gradients pass one communicator, so that a group of them waits for the one before it with its latency.
  bool reduces_in_line = false;
  bool close = false;         // takes more time, for a bound that is closer
  double traffic = 0;         // seconds of a step per parameter over the data axis, before updates
  bool reduces_each = false;  // ... and all of it is gradients of one micro-batch after the other
  double layer_traffic =
      0;  // ... more per parameter of a layer: ZeRO 3 gathers these for every micro-batch
  double layer_seconds = 0;  // ... more of all layers together
  // Of this, what gathers do that come before forwards: per parameter of a layer, and of all layers together.
  double first_gathers = 0, first_latency = 0;
  // ZeRO 3 where every layer has parameters of its own: seconds to gather these, per parameter and collective.
  bool gathers_layers = false;
  double layer_gather = 0, layer_gather_latency = 0;
  double shared = 0;    // elements in layers that are other blocks', too, and stay whole
  double host = 0;      // seconds per forward, and per backward, of a micro-batch and stage
  double transfer = 0;  // seconds from a stage to the next
  double report = 0;    // seconds of the all-reduce between the last gradient and all updates
  double statistics =
      0;  // seconds a micro-batch waits for batch statistics over the data axis, in all units together
  double limit = kForbidden;  // bytes
  ModelUnits units = {};      // which of them are layers
  std::vector<MemoryPrice> memory_prices = {};
  std::vector<TrafficPrice> traffic_prices = {};
  const RangeFloors* ended =
      nullptr;  // seconds of a micro-batch with its share of the end of a step
  TermScales scale = {};
};

// The micro-batches in flight on a device of the pipeline when they are most, at least, as a number of its stages; and
// whether they are as many again once all of its gradients are there.
struct InFlight {
  double most = 1;
  bool with_gradients = false;
};
InFlight LeastInFlight(const Configuration& configuration, int device);
// ... of each of a device's stages, from the first.
std::vector<double> LeastInFlightOfChunks(const Configuration& configuration, int device);

// kForbidden where memory does not suffice whatever is done. `known`: a bound that is there already, from which it starts.
double FloorOf(const Configuration& configuration, const FloorProblem& problem, double known = 0);
// What FloorOf starts from, and is never above it: all devices equally busy, whatever they hold. Nothing is bisected.
double EvenFloorOf(const Configuration& configuration, const FloorProblem& problem);

}  // namespace heddle
