// The terms of the bound that all schedules share (floor.h). Only the files of the floor include
// it.
#pragma once

#include <vector>

#include "schedule/schedule.h"
#include "search/explore/floor.h"

namespace heddle {

// Relative accuracy of the bisection: the bound returned is at most this far below the exact one.
constexpr double kFloorExact = 1e-4;

class FloorTerms {
 public:
  FloorTerms(const Configuration& c, const FloorProblem& problem);

  // The bound that does not depend on the cut: all devices always busy, the traffic of parameters,
  // and the way of one micro-batch through all stages and back.
  double Even() const;
  // What follows the last gradient: the norm's all-reduce, then update and gathering, which
  // overlap. Counted for the device that holds most parameters, which holds at least `parameters`;
  // `outside_layers` of these are in no layer. Weights are gathered in as many collectives as
  // gradients were reduced in (`groups`).
  double End(double parameters, double outside_layers, int groups = 1) const;
  double EvenEnd() const {
    return End(parameters().total() / devices, AllOutsideLayers() / devices);
  }
  // Parameters outside the layers: of the model, and the fewest of a device with units [first,
  // last).
  double AllOutsideLayers() const;
  double OutsideLayersOf(int first, int last) const;

  // Seconds of a micro-batch on all stages together.
  double All() const;
  // What neighbouring stages wait for is not recomputed: a device recomputes while it waits for
  // gradients.
  const LeastTime& plain() const { return *problem.plain; }
  const UnitSums& parameters() const { return problem.plain->parameters; }
  double Host() const { return problem.scale.host * problem.host; }

  // Pipeline fill: seconds before the first forward of a device that has `stages` stages before it,
  // which have the units before `first`. FillAndDrain adds what follows its last backward. The
  // host's share is not counted, because a stage may do it while it waits.
  double Fill(int first, int stages) const {
    return scale.pipeline.fill * plain().forward.Of(0, first) + stages * Transfer();
  }
  double FillAndDrain(int first, int stages) const;
  double Transfer() const { return scale.pipeline.transfer * problem.transfer; }

  // Bytes per parameter on a device while most activations are kept.
  double StateBytes(int device) const;

  // ZeRO 3 on one stage: the last layer's forward, and all that follows, waits for its weights.
  double LastForward() const;

  const Configuration& c;
  const FloorProblem& problem;
  const TermScales& scale;
  const ScheduleDef* schedule;
  int devices, units;
  double microbatches;
  std::vector<InFlight> in_flight;  // per device
};

// The floors of configurations with one stage per device, and with several.
double OneStageFloor(const FloorTerms& terms, double known);
double InterleavedFloor(const FloorTerms& terms, double known);

}  // namespace heddle
