// The meshes of a plan: axes, shares and devices.
#include <algorithm>
#include <functional>
#include <set>

#include "base/checked_math.h"
#include "base/integers.h"
#include "cluster/topology.h"
#include "plan/verify_parts.h"

namespace heddle {
namespace {

constexpr size_t kMaxAxisName = 16;

bool IsAxisName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxAxisName &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

class MeshVerifier {
 public:
  MeshVerifier(const Plan& plan, PlanProblems& problems) : plan_(plan), problems_(problems) {}

  void Run(std::optional<int64_t> devices) {
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const Mesh& mesh = plan_.stages[s].mesh;
      if (mesh.axes.size() > kMaxAxes) {
        Add("stage {}: the mesh has {} axes, at most {} are possible", s, mesh.axes.size(),
            kMaxAxes);
      }
      std::set<std::string> names;
      int64_t size = 1;
      for (const MeshAxis& axis : mesh.axes) {
        if (!IsAxisName(axis.name)) {
          Add("stage {}: axis '{}': a name is 1 to {} small letters and digits", s, axis.name,
              kMaxAxisName);
        }
        if (!names.insert(axis.name).second)
          Add("stage {}: axis '{}' is named twice", s, axis.name);
        if (axis.size < 1)
          Add("stage {}: axis {} has size {}, must be at least 1", s, axis.name, axis.size);
        CheckShares(s, axis);
        size = TryMul(size, std::max<int64_t>(1, axis.size)).value_or(kMaxDevices + 1);
        size = std::min(size, kMaxDevices + 1);
      }
      if (!mesh.named.empty()) {
        CheckNamed(s, mesh, size, devices);
      } else if (mesh.first < 0 ||
                 (devices && (mesh.first >= *devices || size > *devices - mesh.first))) {
        Add("stage {}: {} devices from device {} on are not within the cluster's {}", s, size,
            mesh.first, devices.value_or(0));
      }
    }
  }

 private:
  template <class... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    problems_.Add(format, std::forward<Args>(args)...);
  }

  void CheckNamed(size_t s, const Mesh& mesh, int64_t size, std::optional<int64_t> devices) {
    if (static_cast<int64_t>(mesh.named.size()) != size || mesh.named.front() != mesh.first) {
      Add("stage {}: {} devices from {} on are named for a mesh of {} from {} on", s,
          mesh.named.size(), mesh.named.front(), size, mesh.first);
    }
    bool ascend = std::adjacent_find(mesh.named.begin(), mesh.named.end(),
                                     std::greater_equal<int64_t>()) == mesh.named.end();
    if (!ascend) Add("stage {}: the devices it names do not ascend", s);
    if (mesh.named.front() < 0 || (devices && mesh.named.back() >= *devices)) {
      Add("stage {}: devices {} are not within the cluster's {}", s, DevicesText(mesh.named),
          devices.value_or(0));
    }
  }

  void CheckShares(size_t s, const MeshAxis& axis) {
    if (axis.shares.empty()) return;
    if (axis.shares.size() != static_cast<size_t>(axis.size)) {
      Add("stage {}: axis {} has {} shares for {} devices", s, axis.name, axis.shares.size(),
          axis.size);
      return;
    }
    int64_t sum = 0, samples = plan_.batch / std::max<int64_t>(1, plan_.microbatches);
    for (int64_t share : axis.shares) {
      if (share < 1 || share > samples) {
        Add("stage {}: axis {} has a share of {}, must be 1 to the {} samples of a micro-batch", s,
            axis.name, share, samples);
        return;
      }
      sum += share;
    }
    if (samples % sum != 0) {
      Add("stage {}: axis {} has shares of {} in all, which do not divide the {} samples of a "
          "micro-batch",
          s, axis.name, sum, samples);
    }
  }

  const Plan& plan_;
  PlanProblems& problems_;
};

}  // namespace

void CheckMeshes(const Plan& plan, std::optional<int64_t> devices, PlanProblems& problems) {
  MeshVerifier(plan, problems).Run(devices);
}

void CheckDevicesOfChunks(const Plan& plan, PlanProblems& problems) {
  auto stages = static_cast<int64_t>(plan.stages.size());
  if (plan.chunks < 1 || stages % plan.chunks != 0) {
    problems.Add("{} chunks do not divide {} stages", plan.chunks, stages);
    return;
  }
  if (plan.chunks == 1) return;
  auto runs = static_cast<size_t>(stages / plan.chunks);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (size_t before = 0; before < std::min(s, runs); ++before) {
      const Mesh &a = plan.stages[before].mesh, &b = plan.stages[s].mesh;
      bool same = SameDevices(a, b);
      if (same == (before == s % runs) && (same || !ShareDevices(a, b))) continue;
      problems.Add(
          "stages {} and {} are on {} devices: with {} chunks stage i is on the devices of stage "
          "i mod {} and on no others",
          before, s,
          same                 ? "the same"
          : ShareDevices(a, b) ? "some of the same"
                               : "other",
          plan.chunks, runs);
    }
  }
}

}  // namespace heddle
