#include "plan/mesh.h"

#include "base/check.h"

namespace heddle {

Position PositionOf(const Mesh& mesh, int64_t index) {
  HEDDLE_CHECK(index >= 0 && index < mesh.size(), "device {} of a mesh of {}", index, mesh.size());
  Position position(mesh.axes.size());
  for (size_t a = mesh.axes.size(); a-- > 0;) {
    position[a] = index % mesh.axes[a].size;
    index /= mesh.axes[a].size;
  }
  return position;
}

int64_t IndexOf(const Mesh& mesh, const Position& position) {
  int64_t index = 0;
  for (size_t a = 0; a < mesh.axes.size(); ++a) index = index * mesh.axes[a].size + position[a];
  return index;
}

std::vector<int64_t> AxisGroup(const Mesh& mesh, int64_t index, AxisMask axes) {
  std::vector<int64_t> members = {0};
  Position position = PositionOf(mesh, index);
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    std::vector<int64_t> next;
    for (int64_t outer : members) {
      int64_t begin = Contains(axes, a) ? 0 : position[a];
      int64_t end = Contains(axes, a) ? mesh.axes[a].size : position[a] + 1;
      for (int64_t i = begin; i < end; ++i) next.push_back(outer * mesh.axes[a].size + i);
    }
    members = std::move(next);
  }
  return members;
}

int64_t GroupSize(const Mesh& mesh, AxisMask axes) {
  int64_t size = 1;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (Contains(axes, a)) size *= mesh.axes[a].size;
  }
  return size;
}

}  // namespace heddle
