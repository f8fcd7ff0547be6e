// A case of bench/sparse: a model on V100s of Summit, the search problem and the degrees for it, and one of its plans
// simulated.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "cluster/load.h"
#include "cluster/select.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "search/searcher.h"
#include "step_parts.h"

namespace heddle {

constexpr int64_t kGpusPerMachine = 6;

struct BenchModel {
  const char* name;
  int64_t batch;
  std::vector<int64_t>
      devices;  // the largest first; the others only if the model is named on the command line
  bool stages = true;  // false: only replicas
  bool all = false;    // all numbers of devices, even if the model is not named
};

struct Case {
  const BenchModel& of;
  const Model& model;
  Cluster cluster;
  int64_t devices;
};

struct Row {
  std::string scheme;
  int64_t pp = 1, tp = 1, dp = 1, microbatches = 1,
          samples = 1;  // samples: per micro-batch and replica
  int zero = 0;
  double memory = 0;
  StepParts parts;
  bool fits = true;  // false: memory is the smallest that was needed
};

// Keeps the better row: of two that fit the faster, of two that do not the one with less memory.
inline void Keep(Row row, double limit, std::optional<Row>& best) {
  row.fits = row.memory <= limit;
  bool better = !best || (row.fits != best->fits ? row.fits
                          : row.fits             ? row.parts.step < best->parts.step
                                                 : row.memory < best->memory);
  if (better) best = row;
}

inline Cluster Summit(int64_t devices) {
  Cluster cluster =
      LoadCluster(fmt::format("summit:{}", (devices + kGpusPerMachine - 1) / kGpusPerMachine));
  std::vector<int64_t> chosen(static_cast<size_t>(devices));
  std::iota(chosen.begin(), chosen.end(), 0);
  return devices % kGpusPerMachine == 0 ? cluster : Select(cluster, chosen);
}

// Updates are fused kernels without temporary memory, as heddle's on GPUs.
inline SimOptions Options() {
  SimOptions options;
  options.fused_update = true;
  return options;
}

// Simulates a plan. `more`: bytes in addition to simulated memory.
inline Row Simulated(const Case& at, const Plan& plan, const SimOptions& options, double more) {
  Plan named = plan;
  named.model.source = at.of.name;
  RequireSound(named, at.model, at.of.name);
  SimResult result = Simulate(Lower(at.model, plan), at.cluster, options);
  Row row;
  row.memory = static_cast<double>(result.reserved_memory_bytes) + more;
  row.parts = PartsOf(result);
  row.pp = static_cast<int64_t>(plan.stages.size()) / plan.chunks;
  for (const MeshAxis& axis : plan.stages.front().mesh.axes) {
    (axis.name == "tp" ? row.tp : row.dp) *= axis.size;
  }
  row.microbatches = plan.microbatches;
  row.samples = std::max<int64_t>(1, plan.batch / plan.microbatches / row.dp);
  row.zero = plan.zero.level;
  return row;
}

inline SearchProblem ProblemOf(const Case& at, double sparsity) {
  SearchProblem problem{.model = at.model, .cluster = at.cluster};
  problem.precision = DType::kF16;
  problem.gradients = DType::kF16;
  problem.local_batch_statistics = !at.of.stages;
  problem.pruning = PruneAll(at.model, sparsity);
  problem.sim = Options();
  return problem;
}

inline Degrees DegreesOf(const Case& at) {
  Degrees degrees;
  degrees.precision = DType::kF16;
  degrees.gradients = DType::kF16;
  degrees.recompute = at.of.stages ? RecomputePolicy::kFull : RecomputePolicy::kNone;
  degrees.local_batch_statistics = !at.of.stages;
  return degrees;
}

}  // namespace heddle
