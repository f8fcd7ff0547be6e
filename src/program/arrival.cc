#include "program/arrival.h"

#include "cluster/topology.h"

namespace heddle {
namespace {

double Bandwidth(const Cluster& cluster, int64_t from, int64_t to) {
  return PathBetween(cluster, DeviceId{static_cast<int>(from)}, DeviceId{static_cast<int>(to)})
      .bandwidth;
}

// Between the mesh and its neighbour in the order of devices; 0 where it has none, or no links are known.
double Outside(const Cluster& cluster, const Mesh& mesh) {
  int64_t end = DeviceAt(mesh, mesh.size() - 1) + 1;
  if (cluster.groups.empty() || DeviceCount(cluster) < end) return 0;
  if (mesh.first > 0) return Bandwidth(cluster, mesh.first - 1, mesh.first);
  return end < DeviceCount(cluster) ? Bandwidth(cluster, end - 1, end) : 0;
}

// Axes leave a part as its innermost only.
bool Takes(const Mesh& mesh, const Part& part, size_t axis) {
  bool innermost = part.axes >> axis == 0;
  int64_t parts = GroupSize(mesh, part.axes | AxisSet(axis));
  return innermost && part.size % parts == 0 && part.size > 1;
}

bool Split(const Mesh& mesh, Sharding& sharding, size_t axis) {
  for (ShardedDim& dim : sharding.dims) {
    if (dim.terms.size() != 1) continue;
    for (Part& part : dim.terms[0]) {
      if (!Takes(mesh, part, axis)) continue;
      part.axes |= AxisSet(axis);
      return true;
    }
  }
  return false;
}

}  // namespace

Sharding Arriving(const Cluster& cluster, const Mesh& mesh, const Sharding& wanted) {
  Sharding arriving = wanted;
  double outside = Outside(cluster, mesh);
  if (outside == 0) return arriving;
  int64_t stride = mesh.size();
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    stride /= mesh.axes[axis].size;
    bool replicated = mesh.axes[axis].size > 1 && !Contains(wanted.split_axes(), axis);
    if (!replicated || Bandwidth(cluster, mesh.first, DeviceAt(mesh, stride)) <= outside) continue;
    Split(mesh, arriving, axis);
  }
  return Normalised(mesh, arriving);
}

}  // namespace heddle
