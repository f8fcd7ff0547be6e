// What is asked of a search: how to train this model on that cluster, with what is decided already.
//
//   SearchProblem problem{.model = model, .cluster = cluster, .fixed = {.tp = 8}};
//
// How hard it is looked for, and until when, is apart (search_effort.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/axes.h"
#include "plan/expert.h"
#include "sim/simulate.h"

namespace heddle {

// What a user has decided; none: free.
struct FixedDegrees {
  std::optional<int64_t> dp = {}, tp = {}, pp = {}, microbatches = {};
  std::optional<int> zero = {}, chunks = {};
  std::optional<RecomputePolicy> recompute = {};
  std::optional<Offload> offload = {};
  std::optional<std::string> schedule = {};
  std::vector<int64_t> layers_per_stage = {};  // plan/expert.h; empty: free
};

// What is decided for the degree of a role; data, tensor and pipeline have one.
std::optional<int64_t>& FixedDegree(FixedDegrees& fixed, AxisRole role);
const std::optional<int64_t>& FixedDegree(const FixedDegrees& fixed, AxisRole role);

// The most axes of a mesh that a search tries: time and memory of its tables grow with them. Plans may have kMaxAxes.
constexpr size_t kMaxSearchedAxes = 3;

// Are dp, tp and pp all decided? Then their product is the number of devices, and there is no context parallelism.
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
  int64_t bucket_bytes = Plan{}.bucket_bytes;  // of gradients reduced together
  int64_t memory_limit = 0;                    // bytes a device may use; 0: what it has
  double reserve = 0.06;                // of that: contexts, libraries, what is not simulated
  std::vector<std::string> whole = {};  // names of parameters that are not to be split
  SimOptions sim = {};
  Pruning pruning = {};  // of the plans
};

// The same problem on another cluster: everything but the cluster is copied. Both must outlive the result.
SearchProblem OnCluster(const SearchProblem& problem, const Cluster& cluster);

// What plans of the problem compute and reduce in.
Precision PrecisionOf(const SearchProblem& problem);

// The bytes a device may reserve: by the smallest, and of one.
int64_t MemoryLimit(const SearchProblem& problem);
int64_t MemoryLimit(const SearchProblem& problem, int64_t device);
// What a machine has for what is offloaded: its memory, or where that is its devices' own what they may not use of it.
// Nothing: not known.
std::optional<int64_t> HostLimit(const SearchProblem& problem);

}  // namespace heddle
