#include "plan/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace heddle {

int64_t DeviceAt(const Mesh& mesh, int64_t index) {
  return mesh.named.empty() ? mesh.first + index : mesh.named[static_cast<size_t>(index)];
}

int64_t IndexIn(const Mesh& mesh, int64_t device) {
  if (mesh.named.empty()) {
    int64_t index = device - mesh.first;
    return index >= 0 && index < mesh.size() ? index : -1;
  }
  auto found = std::lower_bound(mesh.named.begin(), mesh.named.end(), device);
  return found != mesh.named.end() && *found == device ? found - mesh.named.begin() : -1;
}

std::vector<int64_t> DevicesOf(const Mesh& mesh) {
  if (!mesh.named.empty()) return mesh.named;
  std::vector<int64_t> devices(static_cast<size_t>(mesh.size()));
  std::iota(devices.begin(), devices.end(), mesh.first);
  return devices;
}

bool SameDevices(const Mesh& a, const Mesh& b) {
  return a.first == b.first && a.named == b.named && a.size() == b.size();
}

bool ShareDevices(const Mesh& a, const Mesh& b) {
  if (a.named.empty() && b.named.empty()) {
    return a.first < b.first + b.size() && b.first < a.first + a.size();
  }
  std::vector<int64_t> devices = DevicesOf(a);
  return std::any_of(devices.begin(), devices.end(),
                     [&](int64_t device) { return IndexIn(b, device) >= 0; });
}

void Place(Mesh& mesh, const std::vector<int64_t>& devices) {
  HEDDLE_CHECK(static_cast<int64_t>(devices.size()) == mesh.size(), "{} devices for a mesh of {}",
               devices.size(), mesh.size());
  mesh.first = devices.front();
  bool run = devices.back() - devices.front() + 1 == mesh.size();
  mesh.named = run ? std::vector<int64_t>{} : devices;
}

std::string DevicesText(const std::vector<int64_t>& devices, std::string_view to) {
  std::vector<std::string> runs;
  for (size_t begin = 0, end = 0; begin < devices.size(); begin = end) {
    for (end = begin + 1; end < devices.size() && devices[end] == devices[end - 1] + 1;) ++end;
    runs.push_back(fmt::format("{}{}{}", devices[begin], to, devices[end - 1]));
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

int64_t UnitsOf(const MeshAxis& axis) {
  if (axis.shares.empty()) return axis.size;
  return std::accumulate(axis.shares.begin(), axis.shares.end(), int64_t{0});
}

int64_t LargestOf(const MeshAxis& axis) {
  return std::max_element(axis.shares.begin(), axis.shares.end()) - axis.shares.begin();
}

std::string ToString(const MeshAxis& axis) {
  std::string text = fmt::format("{} {}", axis.name, axis.size);
  if (axis.shares.empty()) return text;
  std::vector<std::string> runs;
  for (size_t begin = 0, end = 0; begin < axis.shares.size(); begin = end) {
    while (end < axis.shares.size() && axis.shares[end] == axis.shares[begin]) ++end;
    runs.push_back(end - begin == 1 ? fmt::format("{}", axis.shares[begin])
                                    : fmt::format("{}x{}", end - begin, axis.shares[begin]));
  }
  return fmt::format("{} ({})", text, fmt::join(runs, ":"));
}

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

bool IsFirstOfGroup(const Mesh& mesh, int64_t index, AxisMask axes) {
  for (size_t a = mesh.axes.size(); a-- > 0;) {
    if (Contains(axes, a) && index % mesh.axes[a].size != 0) return false;
    index /= mesh.axes[a].size;
  }
  return true;
}

}  // namespace heddle
