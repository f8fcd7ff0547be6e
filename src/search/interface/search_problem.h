// The problem of a search: how to train this model on that cluster, given the choices that are
// fixed.
//
//   SearchProblem problem{.model = model, .cluster = cluster, .fixed = {.tp = 8}};
//
// The effort of the search is separate (search_effort.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/axes.h"
#include "plan/expert.h"
#include "sim/simulate.h"

namespace heddle {

// The user's choices; nothing: free.
struct FixedDegrees {
  std::optional<int64_t> dp = {}, tp = {}, pp = {}, microbatches = {};
  std::optional<int> zero = {}, chunks = {};
  std::optional<RecomputePolicy> recompute = {};
  std::optional<Offload> offload = {};
  std::optional<std::string> schedule = {};
  std::vector<int64_t> layers_per_stage = {};  // plan/expert.h; empty: free
};

// The fixed degree of a role: data, tensor and pipeline parallelism have one.
std::optional<int64_t>& FixedDegree(FixedDegrees& fixed, AxisRole role);
const std::optional<int64_t>& FixedDegree(const FixedDegrees& fixed, AxisRole role);

// The most axes of a mesh that a search tries: the time and memory of its tables grow with their number. Plans may have
// up to kMaxAxes.
constexpr size_t kMaxSearchedAxes = 3;

// Are dp, tp and pp fixed? Then their product is the number of devices, and there is no context
// parallelism.
inline bool AreDegreesFixed(const FixedDegrees& fixed) { return fixed.dp && fixed.tp && fixed.pp; }

// Model and cluster must outlive it.
struct SearchProblem {
  const Model& model;
  const Cluster& cluster;
  FixedDegrees fixed = {};
  DType precision = DType::kBF16;
  DType gradients = DType::kF32;
  Products products = Products::kAsCompute;
  std::string optimizer = "adamw";
  bool local_batch_statistics = false;
  int64_t bucket_bytes = Plan{}.bucket_bytes;  // bytes of a gradient bucket
  int64_t memory_limit = 0;                    // bytes that a device may use; 0: what it has
  // Fraction of the device memory left free for CUDA contexts, libraries and what is not simulated.
  double reserve = 0.06;
  std::vector<std::string> whole = {};  // names of parameters that must not be split
  SimOptions sim = {};
  Pruning pruning = {};  // of the plans
};

// The same problem on another cluster. The cluster and the problem's model must outlive the result.
SearchProblem OnCluster(const SearchProblem& problem, const Cluster& cluster);

// The types that plans of the problem compute and reduce in.
Precision PrecisionOf(const SearchProblem& problem);

// The bytes that a device may reserve: the least of all devices, and of one device.
int64_t MemoryLimit(const SearchProblem& problem);
int64_t MemoryLimit(const SearchProblem& problem, int64_t device);
// The memory of a machine for offloaded state: its host memory, or where devices use the host's
// memory, what they may not use of it. Nothing: not known.
std::optional<int64_t> HostLimit(const SearchProblem& problem);

}  // namespace heddle
