// The terms of the bound that all schedules share (floor.h). Nobody but the files of the floor includes it.
#pragma once

#include <vector>

#include "schedule/schedule.h"
#include "search/explore/floor.h"

namespace heddle {

// How far below the bound that could be given the one given may be.
constexpr double kFloorExact = 1e-4;

class FloorTerms {
 public:
  FloorTerms(const Configuration& c, const FloorProblem& problem);

  // All devices busy all the time; the traffic of parameters; the way of one micro-batch through all stages and back.
  double Even() const;
  // From the moment when the last gradient is there: report, then update and gathering, which overlap. Of the device that
  // holds most parameters, at least this many; `loose`: of these, what is no layer's. Weights are gathered in as many
  // collectives as gradients were reduced in.
  double End(double parameters, double loose, int groups = 1) const;
  double EvenEnd() const { return End(parameters().total() / devices, AllLoose() / devices); }
  // Parameters that are no layer's: of all; and of the units of a device, at least.
  double AllLoose() const;
  double LooseOf(int first, int last) const;

  // Seconds of a micro-batch on all stages together.
  double All() const;
  // What neighbours wait for: a device recomputes while it waits for gradients.
  const LeastTime& plain() const { return *problem.plain; }
  const UnitSums& parameters() const { return problem.plain->parameters; }
  double Host() const { return problem.scale.host * problem.host; }

  // Before the first forward of a stage with so many stages before it, which have the units up to `first`; and that with
  // what follows its last backward. What the host does for a stage it may do while that waits.
  double Head(int first, int stages) const {
    return scale.wait * plain().forward.Of(0, first) + stages * Transfer();
  }
  double HeadAndTail(int first, int stages) const;
  double Transfer() const { return scale.transfer * problem.transfer; }

  // Bytes per parameter on a device when most activations are there.
  double StateBytes(int device) const;

  // With one stage and ZeRO 3: the last layer's forward and what comes after it wait for its weights.
  double LastForward() const;

  const Configuration& c;
  const FloorProblem& problem;
  const TermScales& scale;
  const ScheduleDef* schedule;
  int devices, units;
  double microbatches;
  std::vector<InFlight> in_flight;  // per device
};

// Configurations with several stages per device.
double InterleavedFloor(const FloorTerms& terms, double known);

}  // namespace heddle
