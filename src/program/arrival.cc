#include "program/arrival.h"

#include "cluster/topology.h"

namespace heddle {
namespace {

double Bandwidth(const Cluster& cluster, int64_t from, int64_t to) {
  return PathBetween(cluster, DeviceId{static_cast<int>(from)}, DeviceId{static_cast<int>(to)})
      .bandwidth;
}

// The bandwidth between the mesh and its neighbour in the order of devices; 0 where there is none, or it is not known.
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

std::vector<double> LinksOfArrival(const Cluster& cluster, const Mesh& mesh) {
  std::vector<double> links = {Outside(cluster, mesh)};
  if (links[0] == 0) return links;
  int64_t stride = mesh.size();
  for (const MeshAxis& axis : mesh.axes) {
    stride /= axis.size;
    links.push_back(axis.size > 1 ? Bandwidth(cluster, mesh.first, DeviceAt(mesh, stride)) : 0);
  }
  return links;
}

Sharding Arriving(const Cluster& cluster, const Mesh& mesh, const Sharding& wanted) {
  Sharding arriving = wanted;
  std::vector<double> links = LinksOfArrival(cluster, mesh);
  double outside = links[0];
  if (outside == 0) return arriving;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    bool replicated = mesh.axes[axis].size > 1 && !Contains(wanted.split_axes(), axis);
    if (!replicated || links[axis + 1] <= outside) continue;
    Split(mesh, arriving, axis);
  }
  return Normalised(mesh, arriving);
}

}  // namespace heddle
