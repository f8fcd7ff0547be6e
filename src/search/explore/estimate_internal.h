// What the files of the estimator share, and nobody else includes.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "search/explore/estimate.h"

namespace heddle {

// [b] is the sum over blocks before b.
struct Estimator::Sums {
  std::vector<double> forward, backward, weight, activations, held, parameters, layers;
  // Groups of parameters that ZeRO 3 gathers for layers: two for a layer with parameters that are split and others that are not.
  std::vector<double> gathered_groups;
  std::vector<double>
      reduced;  // seconds of a step for gradients reduced along other axes than that of data
  double most_activations = 0, most_parameters = 0;  // of one block
  double loose_parameters = 0;                       // of what is no layer
  // Where stages of interleaved schedules end, by devices of the pipeline and chunks; found once.
  mutable std::mutex mutex;
  mutable std::map<std::pair<int, int>, std::vector<int>> even_ends;

  double Seconds(int first, int last) const {
    return Of(forward, first, last) + Of(backward, first, last) + Of(weight, first, last);
  }
  static double Of(const std::vector<double>& sums, int first, int last) {
    return sums[static_cast<size_t>(last)] - sums[static_cast<size_t>(first)];
  }
};

struct Estimator::Context {
  const Configuration* configuration = nullptr;
  PerRecomputePolicy<const Sums*> sums = {};  // by policy; null: not allowed
  const ScheduleDef* schedule = nullptr;
  PipelineShape shape;
  HeldBytes bytes;                                             // per parameter
  double update = 0;                                           // seconds of a step per parameter
  double host_copies = 0;                                      // likewise; beside updates
  double reduce = 0, gather = 0;                               // likewise
  double reduce_latency = 0, gather_latency = 0;               // seconds of a collective
  double layer_gather_latency = 0, layer_scatter_latency = 0;  // ... of ZeRO 3
  double statistics = 0;  // seconds of a micro-batch for batch statistics over the data axis
  double exposed_statistics = 0;  // of these, what nothing hides: latencies, forward and backward
  const Sums* kept = nullptr;     // with nothing recomputed
  double transient = 0;           // bytes that a block needs while it is at work
  double room = 0;                // bytes that stages may use besides
  bool minds_waiting = false;     // stages are cut by what they wait for, too
  double limit = kForbidden;      // seconds; of longer steps estimates may be coarse
  // Per device of the pipeline: the bytes that the lowered plan reserved beyond its estimate; empty: not known.
  std::vector<double> missing = {};
};

}  // namespace heddle
