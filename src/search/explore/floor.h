// Floors: lower bounds on the step time of every plan of a configuration.
//
// The bound adds up what cannot be avoided. A device of the pipeline computes m micro-batches of
// its units (range_floors.h) after the stages before it have done their first forward; then the
// stages before it do their last backward. When all gradients are reduced, all devices update their
// parameters and gather what was updated. A device's memory holds the state of its parameters and
// the activations of the micro-batches in flight; activations that do not fit are recomputed, which
// takes time.
//
// X is a lower bound if stages that take as many units as time X and the memory limit allow cannot
// take all units; the largest such X is found by bisection. Giving each stage as many units as
// possible, in order, is optimal: one more unit shortens the remaining work by at least what it
// adds to the wait of the stages behind.
//
// floor_terms.h has the terms, floor_one_stage.cc cuts for schedules with one stage per device,
// floor_interleaved.cc for several stages per device, which have n or n - 1 layers each
// (plan/units.h, EvenCut). docs/planner.md derives each term.
#pragma once

#include <vector>

#include "plan/units.h"
#include "search/explore/configuration.h"
#include "search/prices/prices.h"

namespace heddle {

// A Lagrangian bound on computation and memory together. A stage's memory must fit its device, so
// its time is at least the least of (seconds + price x bytes) over all strategies, less price x the
// device's memory. Per micro-batch.
struct MemoryPrice {
  double per_byte = 0;  // seconds of a micro-batch per byte
  // Per stage, in the order of the data: the least priced cost of its units under any allowed recomputation policy.
  std::vector<const RangeFloors*> least = {};
};

// A bound on computation and parameter traffic together. A step takes at least any convex combination of the time that
// devices compute and the time that the data axis carries parameters, both under the same strategies.
struct TrafficPrice {
  double compute_weight = 1;  // the weight of computation; traffic has the rest
  // The least of both together for the units, per micro-batch, divided by compute_weight.
  const RangeFloors* least = nullptr;
  double overcount = 0;        // seconds of a step that `least` counts too much, over all devices
  bool after_forward = false;  // only the traffic that follows a forward of all units is counted
};

// Factors on the terms of the bound. All of them are 1, except in the test that raises one term at a time and must then
// see the bound refuted (tests/bound_terms_test.cc). docs/planner.md describes the terms under these names.
struct MemoryScales {
  double recomputed = 1;  // seconds that recomputation adds
  double kept = 1;        // bytes of activations in flight
  double state = 1;       // bytes of parameters, gradients and optimizer state
  double priced = 1;      // computation and memory under the same strategies
};
struct PipelineScales {
  double fill = 1;      // forwards before a stage's first, backwards after its last
  double transfer = 1;  // sends between stages on the way of the first and the last micro-batch
  double path = 1;      // one micro-batch forward through all units and back
  double first_backward = 1;  // the forward of all units that precedes a device's backwards
};
struct TrafficScales {
  double total = 1;   // all parameter traffic on the data axis
  double layers = 1;  // latencies of ZeRO 3's layers, and weights gathered again for W
  double first_and_last_gather = 1;  // ZeRO 3: gathers of the first and the last layer
  double priced = 1;                 // computation and traffic under the same strategies
};
struct StepEndScales {
  double reduction = 1;  // reduction of gradients after the last of them is complete
  double groups = 1;     // reductions of groups of gradients, one after the other
  double report = 1;     // all-reduce of loss and gradient norm before the updates
  double update = 1;     // update of parameters
  double gather = 1;     // all-gather of updated parameters
  double priced = 1;     // computation and the end of the step under the same strategies
};
struct TermScales {
  double own = 1;         // seconds that a device computes and waits for its own traffic
  double host = 1;        // seconds of the host per half of a micro-batch
  double statistics = 1;  // statistics of batch normalisation over the data axis
  MemoryScales memory;
  PipelineScales pipeline;
  TrafficScales traffic;
  StepEndScales end;
};

// What a device has and needs, in bytes. held_bytes.h explains the kinds of bytes per parameter.
struct FloorMemory {
  const LeastMemory* activations = nullptr;  // under the allowed policies; null: memory is ignored
  double limit = kForbidden;
  double per_parameter = 0;  // while most activations are kept and no gradient exists yet
  double gradient = 0;       // per parameter, from the first backward on
  double gathered = 0;   // ZeRO 3: per parameter of the layer at work and of the layer prefetched
  double unreduced = 0;  // ZeRO 3: per parameter of the layer whose backward ends: its gradient
  double outside_layers = 0;  // ZeRO 3: extra per parameter outside the layers, which stays whole
  // Whole gradients of parameters that the head shares with other units. They count on a device
  // that has all units, after the backward of the head.
  double tied = 0;

  bool limited() const { return activations != nullptr && limit < kForbidden; }
};

// What follows the last backward: reduction, norm, update, gathering. Seconds per parameter of the
// device unless stated.
struct FloorStepEnd {
  double update = 0;
  // Copies of optimizer state from and to the host, beside the update. They may begin `host_lead`
  // seconds before the last backward has ended.
  double host_copies = 0, host_lead = 0;
  double reduce = 0;                              // of the last reduction
  double gather = 0;                              // of the updated parameters
  double gather_outside_layers = 0;               // ZeRO 3: of parameters outside the layers
  double reduce_latency = 0, gather_latency = 0;  // seconds of one such collective
  bool reduces_beside_backward = true;            // false: reductions begin after the last backward
  bool one_communicator = false;  // gradients pass one communicator, so groups wait for each other
  double report = 0;              // seconds of the all-reduce of loss and gradient norm
};

// Parameters and gradients on the data axis before the end of the step.
struct FloorTraffic {
  double per_parameter = 0;  // seconds of a step per parameter
  bool every_microbatch =
      false;  // ZeRO 2: this is gradients, those of one micro-batch after the other
  double per_layer_parameter =
      0;                     // additional seconds: ZeRO 3 gathers layers for every micro-batch
  double layer_seconds = 0;  // additional seconds for all layers together
  // The share of the two above that gathers before forwards have.
  double forward_gathers = 0, forward_gather_seconds = 0;
};

// ZeRO 3 where every layer has parameters of its own: the gather of one layer.
struct FloorLayerGather {
  bool known = false;        // false: some layer has no parameters of its own
  double per_parameter = 0;  // seconds
  double latency = 0;        // seconds
  double shared = 0;  // elements of a layer that other blocks read as well and that stay whole
};

// Everything that the floor of a configuration depends on besides the configuration.
struct FloorProblem {
  const LeastTime* time = nullptr;   // under the fastest policy that is allowed
  const LeastTime* plain = nullptr;  // without recomputation, allowed or not
  ModelUnits units = {};             // which units are layers
  FloorMemory memory;
  FloorTraffic traffic;
  FloorLayerGather layer_gather;
  FloorStepEnd end;
  double host = 0;      // seconds of the host per half of a micro-batch and stage
  double transfer = 0;  // seconds from a stage to the next
  double statistics =
      0;  // seconds that a micro-batch waits for batch statistics, in all units together
  bool close = false;  // compute the closer bounds that take longer to find
  std::vector<MemoryPrice> memory_prices = {};
  std::vector<TrafficPrice> traffic_prices = {};
  const RangeFloors* with_end =
      nullptr;  // seconds of a micro-batch with its share of the step's end
  TermScales scale = {};
};

// The least number of micro-batches whose activations a device of the pipeline holds at its peak,
// counted in stages of the device, and whether that peak is reached again after all of its
// gradients exist.
struct InFlight {
  double most = 1;
  bool with_gradients = false;
};
InFlight LeastInFlight(const Configuration& configuration, int device);
// The same for each stage of the device, from the first chunk on.
std::vector<double> LeastInFlightOfChunks(const Configuration& configuration, int device);

// The floor; kForbidden where no recomputation makes the units fit. `known` is a lower bound that
// is known already, from which the bisection starts.
double FloorOf(const Configuration& configuration, const FloorProblem& problem, double known = 0);
// The bound that FloorOf starts from, never above it: all devices equally busy, whatever units they have. No bisection.
double EvenFloorOf(const Configuration& configuration, const FloorProblem& problem);

}  // namespace heddle
