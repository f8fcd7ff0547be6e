// Private to the files of the estimator (estimate.h).
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "search/explore/estimate.h"

namespace heddle {

// Costs of the model's blocks under the strategies of one policy and memory level, summed: [b] is
// the sum over the blocks before b.
struct Estimator::Sums {
  std::vector<double> forward, backward, weight, activations, held, parameters, layers;
  // Parameter groups that ZeRO 3 gathers: two for a layer that has both split and unsplit
  // parameters, otherwise one.
  std::vector<double> gathered_groups;
  std::vector<double>
      // Seconds of a step for gradients that are reduced along other axes than the data axis.
      reduced;
  double most_activations = 0, most_parameters = 0;  // of one block
  double outside_layers = 0;                         // outside the layers
  // Where stages of interleaved schedules end, by devices of the pipeline and chunks. A cache.
  mutable std::mutex mutex;
  mutable std::map<std::pair<int, int>, std::vector<int>> even_ends;

  double Seconds(int first, int last) const {
    return Of(forward, first, last) + Of(backward, first, last) + Of(weight, first, last);
  }
  static double Of(const std::vector<double>& sums, int first, int last) {
    return sums[static_cast<size_t>(last)] - sums[static_cast<size_t>(first)];
  }
};

// Costs of a step beside the computation of its micro-batches.
struct Estimator::StepCosts {
  HeldBytes bytes;                // per parameter
  double update = 0;              // seconds of a step per parameter
  double host_copies = 0;         // the same for copies from and to the host, beside updates
  double reduce = 0, gather = 0;  // seconds of a step per parameter
  double reduce_latency = 0, gather_latency = 0;               // seconds of a collective
  double layer_gather_latency = 0, layer_scatter_latency = 0;  // the same for ZeRO 3's layers
  double statistics = 0;  // seconds of a micro-batch for batch statistics over the data axis
  double exposed_statistics = 0;  // of these, the latencies, which nothing hides
};

// What estimates of one configuration at one memory level have in common.
struct Estimator::Context {
  const Configuration* configuration = nullptr;
  PerRecomputePolicy<const Sums*> sums = {};  // by policy; null: not allowed
  const ScheduleDef* schedule = nullptr;
  PipelineShape shape;
  StepCosts step;
  const Sums* kept = nullptr;  // without recomputation
  double transient = 0;        // bytes that a block needs temporarily while it runs
  double room = 0;             // bytes that stages may use in addition
  bool counts_fill = false;    // cut stages by pipeline fill as well as by their own time
  double limit = kForbidden;   // seconds; longer steps may be estimated coarsely
  // Per device of the pipeline: bytes that the lowered plan reserved beyond its estimate. Empty:
  // not known.
  std::vector<double> missing = {};
};

}  // namespace heddle
