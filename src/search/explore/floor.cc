#include "search/explore/floor.h"

#include <algorithm>
#include <cmath>

#include "search/explore/floor_terms.h"

namespace heddle {

FloorTerms::FloorTerms(const Configuration& of, const FloorProblem& with)
    : c(of),
      problem(with),
      scale(with.scale),
      schedule(FindSchedule(of.schedule)),
      devices(static_cast<int>(of.pp)),
      units(with.time->ranges.units()),
      microbatches(static_cast<double>(of.microbatches)) {
  bool memory = with.memory.limited();
  for (int d = 0; d < devices && (memory || with.traffic.every_microbatch); ++d)
    in_flight.push_back(LeastInFlight(of, d));
}

double FloorTerms::All() const {
  const LeastTime& time = *problem.time;
  if (c.stages() == 1) return scale.own * time.whole + scale.statistics * problem.statistics;
  return scale.own *
         std::max(time.whole - (c.stages() - 1) * time.cut_saving, time.ranges.Alone(0, units));
}

double FloorTerms::Even() const {
  double stages = c.stages(), held = parameters().total() / devices;
  double busy = microbatches * (All() + 2 * Host() * stages) / devices;
  double once = plain().whole;
  if (stages > 1) {
    once = std::max(once - (stages - 1) * plain().cut_saving, plain().ranges.Alone(0, units));
  }
  if (schedule->splits_backward) once = plain().without_weights.total();
  double last_forward = LastForward();
  double path = scale.pipeline.path * (once + scale.statistics * problem.statistics) + 2 * Host() +
                2 * (stages - 1) * Transfer();
  double traffic =
      scale.traffic.total * (problem.traffic.per_parameter * held +
                             problem.traffic.per_layer_parameter * plain().layers / devices) +
      scale.traffic.layers * problem.traffic.layer_seconds / devices;
  // All traffic but the gathers before forwards consists of gradients, which follow a forward of
  // all units.
  double first = (scale.traffic.total * problem.traffic.forward_gathers * plain().layers +
                  scale.traffic.layers * problem.traffic.forward_gather_seconds) /
                 devices;
  double after = scale.pipeline.fill * plain().forward.total() + traffic - first;
  double mixed = 0;
  for (const TrafficPrice& at : problem.traffic_prices) {
    double least = stages > 1 ? at.least->Alone(0, units) : at.least->Of(0, units);
    double both = at.compute_weight * microbatches * (least + 2 * Host() * stages) - at.overcount;
    double forward = at.after_forward
                         ? (1 - at.compute_weight) * scale.pipeline.fill * plain().forward.total()
                         : 0;
    mixed = std::max(mixed, scale.traffic.priced * both / devices + forward);
  }
  return std::max({busy, path, mixed, traffic + last_forward, after}) + EvenEnd();
}

// Gathers for forwards end before the last layer's forward, and gathers for backwards begin after
// it.
double FloorTerms::LastForward() const {
  if (!problem.layer_gather.known || c.microbatches > 1 || c.stages() > 1) return 0;
  int layers_end = units - (problem.units.head ? 1 : 0);
  return scale.pipeline.fill * plain().forward.at(layers_end - 1);
}

double FloorTerms::AllOutsideLayers() const { return parameters().total() - plain().layers; }

double FloorTerms::OutsideLayersOf(int first, int last) const {
  double outside_layers = 0;
  if (first == last) return outside_layers;
  if (first == 0 && problem.units.embedding) outside_layers += parameters().at(0);
  if (last == units && problem.units.head) outside_layers += parameters().at(units - 1);
  return outside_layers;
}

double FloorTerms::End(double held, double outside_layers, int groups) const {
  double gathered = problem.end.gather * held + problem.end.gather_outside_layers * outside_layers;
  if (gathered > 0) gathered += groups * problem.end.gather_latency;
  return scale.end.report * problem.end.report +
         std::max(scale.end.update * problem.end.update * held, scale.end.gather * gathered);
}

double FloorTerms::FillAndDrain(int first, int stages) const {
  // With a split backward W fills the device's wait at the end, so only the fill is certain.
  if (schedule->splits_backward) return Fill(first, stages);
  return scale.pipeline.fill * plain().ranges.Alone(0, first) + 2 * stages * Transfer();
}

double FloorTerms::StateBytes(int device) const {
  bool gradients = in_flight[static_cast<size_t>(device)].with_gradients;
  return problem.memory.per_parameter + (gradients ? problem.memory.gradient : 0);
}

InFlight LeastInFlight(const Configuration& c, int device) {
  const ScheduleDef* schedule = FindSchedule(c.schedule);
  PipelineShape shape;
  shape.devices = static_cast<int>(c.pp);
  shape.chunks = c.chunks;
  shape.microbatches = static_cast<int>(c.microbatches);
  // With a split backward W may be postponed to the end.
  if (schedule->splits_backward) {
    return {static_cast<double>(std::min(c.microbatches, c.pp - device)), false};
  }
  int most = schedule->peak_in_flight(shape, device);
  int tasks = shape.microbatches * shape.chunks;
  int round = shape.chunks > 1 ? shape.devices * shape.chunks : 1;
  return {static_cast<double>(most), most + round <= tasks};
}

// Forwards go in rounds of as many micro-batches as there are devices through all chunks
// (schedule/interleaved.cc).
std::vector<double> LeastInFlightOfChunks(const Configuration& c, int device) {
  InFlight of_all = LeastInFlight(c, device);
  if (c.chunks == 1) return {of_all.most};
  int devices = static_cast<int>(c.pp), most = static_cast<int>(of_all.most);
  int round = devices * c.chunks, rest = most % round;
  std::vector<double> counts;
  for (int k = 0; k < c.chunks; ++k) {
    counts.push_back(most / round * devices + std::clamp(rest - k * devices, 0, devices));
  }
  return counts;  // in descending order
}

double EvenFloorOf(const Configuration& configuration, const FloorProblem& problem) {
  FloorTerms terms(configuration, problem);
  return terms.units < configuration.stages() ? kForbidden : std::max(0.0, terms.Even());
}

double FloorOf(const Configuration& configuration, const FloorProblem& problem, double known) {
  FloorTerms terms(configuration, problem);
  if (terms.units < configuration.stages()) return kForbidden;
  double floor =
      configuration.chunks > 1 ? InterleavedFloor(terms, known) : OneStageFloor(terms, known);
  if (floor == kForbidden || problem.end.host_copies <= problem.end.update) return floor;
  FloorProblem copies = problem;
  copies.end.update = problem.end.host_copies;
  return std::max(floor, FloorOf(configuration, copies, known) - problem.end.host_lead);
}

}  // namespace heddle
