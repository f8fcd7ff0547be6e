#include "search/interface/search_problem.h"

#include <algorithm>

#include "base/check.h"
#include "cluster/topology.h"

namespace heddle {

// The structured binding names every field, so that a new field that is not copied does not
// compile.
SearchProblem OnCluster(const SearchProblem& problem, const Cluster& cluster) {
  const auto& [model, other_cluster, fixed, precision, gradients, products, optimizer,
               local_batch_statistics, bucket_bytes, memory_limit, reserve, whole, sim, pruning] =
      problem;
  static_cast<void>(other_cluster);
  return {model,        cluster,      fixed,     precision,
          gradients,    products,     optimizer, local_batch_statistics,
          bucket_bytes, memory_limit, reserve,   whole,
          sim,          pruning};
}

namespace {

template <typename Fixed>
auto& DegreeIn(Fixed& fixed, AxisRole role) {
  if (role == AxisRole::kReplicatedData) return fixed.dp;
  if (role == AxisRole::kTensor) return fixed.tp;
  HEDDLE_CHECK(role == AxisRole::kPipeline, "role {} has no fixed degree", static_cast<int>(role));
  return fixed.pp;
}

}  // namespace

std::optional<int64_t>& FixedDegree(FixedDegrees& fixed, AxisRole role) {
  return DegreeIn(fixed, role);
}

const std::optional<int64_t>& FixedDegree(const FixedDegrees& fixed, AxisRole role) {
  return DegreeIn(fixed, role);
}

Precision PrecisionOf(const SearchProblem& problem) {
  Precision precision;
  precision.compute = problem.precision;
  precision.gradients = problem.gradients;
  precision.products = problem.products;
  precision.moments_kept = MomentsOf(problem.optimizer);
  return precision;
}

namespace {

int64_t LimitOf(const SearchProblem& problem, const DeviceType& type) {
  int64_t has = type.memory.value;
  if (problem.memory_limit > 0) has = std::min(problem.memory_limit, has);
  return static_cast<int64_t>((1 - problem.reserve) * static_cast<double>(has));
}

}  // namespace

int64_t MemoryLimit(const SearchProblem& problem) {
  int64_t least = INT64_MAX;
  for (const DeviceType& type : problem.cluster.device_types) {
    least = std::min(least, LimitOf(problem, type));
  }
  return least;
}

int64_t MemoryLimit(const SearchProblem& problem, int64_t device) {
  DeviceTypeId type = TypeOf(problem.cluster, DeviceId{static_cast<int32_t>(device)});
  return LimitOf(problem, problem.cluster.type(type));
}

std::optional<int64_t> HostLimit(const SearchProblem& problem) {
  GroupSpan node = NodeOf(problem.cluster, DeviceId{0});
  int64_t has = problem.cluster.group(node.group).host_memory.value;
  if (has == 0) return std::nullopt;
  int64_t device = problem.cluster.type(TypeOf(problem.cluster, DeviceId{0})).memory.value;
  // Devices that use the host's memory have a share of it each.
  bool own = device != has / node.count;
  if (own) return has;
  bool spare = problem.memory_limit > 0 && problem.memory_limit < device;
  return spare ? has - node.count * problem.memory_limit : 0;
}

}  // namespace heddle
