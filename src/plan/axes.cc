#include "plan/axes.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/integers.h"
#include "plan/expert.h"

namespace heddle {
namespace {

constexpr char kTensorAxis[] = "tp", kOuterTensorAxis[] = "xp";

// Are experts spread over a part of the data ranks, which then is an axis of its own?
bool HasExpertAxis(const Degrees& degrees) { return degrees.ep > 1 && degrees.ep < degrees.dp; }

// The neighbours among which ZeRO splits state: all data ranks, unless the sharding is hybrid.
int64_t ShardRanks(const Degrees& degrees) {
  return degrees.zero_ranks > 0 && SplitsState(degrees.zero) ? degrees.zero_ranks : degrees.dp;
}

int64_t DataSize(const Degrees& degrees) {
  if (HasExpertAxis(degrees)) return degrees.dp / degrees.ep;
  int64_t shard = ShardRanks(degrees);
  return shard < degrees.dp ? degrees.dp / shard : degrees.dp;
}
int64_t ExpertSize(const Degrees& degrees) { return HasExpertAxis(degrees) ? degrees.ep : 1; }
int64_t ShardSize(const Degrees& degrees) {
  return ShardRanks(degrees) < degrees.dp ? ShardRanks(degrees) : 1;
}
int64_t ContextSize(const Degrees& degrees) { return degrees.cp; }
int64_t TensorSize(const Degrees& degrees) { return degrees.tp; }

constexpr ParallelAxis kAxes[] = {
    {.name = kDataAxis,
     .role = AxisRole::kReplicatedData,
     .degree = &Degrees::dp,
     .nesting = 0,
     .expert_size = DataSize,
     .help = "data parallel degree",
     .always_named = true,
     .searched = true},
    {.name = kTensorAxis,
     .role = AxisRole::kTensor,
     .degree = &Degrees::tp,
     .nesting = 5,
     .expert_size = TensorSize,
     .help = "tensor parallel degree",
     .always_named = true,
     .searched = true},
    {.name = "pp",
     .role = AxisRole::kPipeline,
     .degree = &Degrees::pp,
     .nesting = 6,
     .help = "pipeline stages, times --chunks",
     .always_named = true,
     .searched = true},
    {.name = kOuterTensorAxis,
     .role = AxisRole::kTensor,
     .degree = &Degrees::tp,
     .nesting = 4,
     .meaning =
         "a second mesh axis of tensor parallelism, along which each node may split any dimension",
     .searched = true},
    {.name = "cp",
     .role = AxisRole::kContext,
     .degree = &Degrees::cp,
     .nesting = 3,
     .expert_size = ContextSize,
     .help = "context parallel degree: splits the sequence",
     .meaning = "context parallelism: every sequence is split over this many devices (--cp)"},
    {.name = "ep",
     .role = AxisRole::kExpert,
     .degree = &Degrees::ep,
     .within = &Degrees::dp,
     .nesting = 1,
     .expert_size = ExpertSize,
     .help = "expert parallel degree; divides --dp",
     .meaning =
         "expert parallelism: experts are distributed over this many of the data ranks (--ep)"},
    {.name = "shard",
     .role = AxisRole::kShardedData,
     .degree = &Degrees::dp,
     .nesting = 2,
     .expert_size = ShardSize},
};

constexpr AxisModifier kModifiers[] = {
    {"sp", &Degrees::sp, AxisRole::kTensor,
     "sequence parallel: nodes that --tp does not split are split by sequence"},
};

template <typename Keep>
std::vector<const ParallelAxis*> ByNesting(const Keep& keep) {
  std::vector<const ParallelAxis*> axes;
  for (const ParallelAxis& axis : kAxes) {
    if (keep(axis)) axes.push_back(&axis);
  }
  std::sort(axes.begin(), axes.end(),
            [](const ParallelAxis* a, const ParallelAxis* b) { return a->nesting < b->nesting; });
  return axes;
}

}  // namespace

std::span<const ParallelAxis> AllAxes() { return kAxes; }

std::span<const AxisModifier> AllAxisModifiers() { return kModifiers; }

std::span<const ParallelAxis* const> DeviceFactors() {
  static const std::vector<const ParallelAxis*> factors = ByNesting(
      [](const ParallelAxis& axis) { return axis.is_degree() && axis.within == nullptr; });
  return factors;
}

std::span<const ParallelAxis* const> ExpertMeshAxes() {
  static const std::vector<const ParallelAxis*> axes =
      ByNesting([](const ParallelAxis& axis) { return axis.expert_size != nullptr; });
  return axes;
}

const ParallelAxis* FindAxis(std::string_view name) {
  auto found = std::find_if(std::begin(kAxes), std::end(kAxes), [&](const ParallelAxis& axis) {
    return axis.name == name && axis.role != AxisRole::kPipeline;
  });
  return found == std::end(kAxes) ? nullptr : found;
}

bool HasRole(const MeshAxis& axis, AxisRole role) {
  const ParallelAxis* found = FindAxis(axis.name);
  return found != nullptr && found->role == role;
}

int AxisWithRole(const Mesh& mesh, AxisRole role) {
  auto found = std::find_if(mesh.axes.begin(), mesh.axes.end(),
                            [&](const MeshAxis& axis) { return HasRole(axis, role); });
  return found == mesh.axes.end() ? -1 : ToInt(found - mesh.axes.begin());
}

int ExpertAxisOf(const Mesh& mesh, const Degrees& degrees) {
  if (degrees.ep == 1) return -1;
  return AxisWithRole(mesh, HasExpertAxis(degrees) ? AxisRole::kExpert : AxisRole::kReplicatedData);
}

std::string_view FreeAxisName(size_t index, size_t count) {
  return index + 1 == count ? kTensorAxis : kOuterTensorAxis;
}

MeshAxis DataAxis(int64_t size) { return {kDataAxis, size}; }

MeshAxis FreeAxis(size_t index, size_t count, int64_t size) {
  return {std::string(FreeAxisName(index, count)), size};
}

bool BeginsWithData(const Mesh& mesh) {
  return !mesh.axes.empty() && HasRole(mesh.axes.front(), AxisRole::kReplicatedData);
}

}  // namespace heddle
