// A mesh: a stage's devices, a consecutive run of the device order or some that are named, laid out row-major over at
// most five logical axes.
//
//   Mesh mesh{.first = 8, .axes = {{"dp", 2}, {"tp", 4}}};     devices 8..15
//   PositionOf(mesh, 5) == {1, 1}                                 device 13: dp 1, tp 1
//   AxisGroup(mesh, 5, AxisSet(1)) == {4, 5, 6, 7}                  those that differ from it along tp only
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

constexpr size_t kMaxAxes = 5;

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  // Unlike parts for unlike devices: device i of the axis has shares[i] of their sum. Such an axis splits the batch and
  // nothing else. Empty: equal parts.
  std::vector<int64_t> shares = {};
  bool operator==(const MeshAxis&) const = default;
};

struct Mesh {
  int64_t first = 0;  // device
  std::vector<MeshAxis> axes;
  std::vector<int64_t> named = {};  // devices, ascending; empty: those from `first` on

  int64_t size() const {
    int64_t size = 1;
    for (const MeshAxis& axis : axes) size *= axis.size;
    return size;
  }
  bool operator==(const Mesh&) const = default;
};

// Devices of the cluster, and where they are counted from 0 within the mesh.
int64_t DeviceAt(const Mesh& mesh, int64_t index);
int64_t IndexIn(const Mesh& mesh, int64_t device);  // -1: not there
std::vector<int64_t> DevicesOf(const Mesh& mesh);
bool SameDevices(const Mesh& a, const Mesh& b);
bool ShareDevices(const Mesh& a, const Mesh& b);  // at least one
// Puts a mesh on these devices (ascending, as many as it has); a consecutive run is not named.
void Place(Mesh& mesh, const std::vector<int64_t>& devices);

// "0..7", "0..3, 8..11".
std::string DevicesText(const std::vector<int64_t>& devices, std::string_view to = "..");

// An axis splits a size without remainder if this divides it: the sum of its shares, or its size.
int64_t UnitsOf(const MeshAxis& axis);
// The index with the largest share.
int64_t LargestOf(const MeshAxis& axis);

// "dp 2", "dp 2 (3:1)", "dp 6 (4x3:2x1)": four of 3 each, two of 1.
std::string ToString(const MeshAxis& axis);

// Where a device is on each axis.
using Position = std::vector<int64_t>;

// A set of axes as bits.
using AxisMask = uint32_t;
constexpr AxisMask AxisSet(size_t axis) { return AxisMask{1} << axis; }
constexpr bool Contains(AxisMask set, size_t axis) { return (set >> axis & 1) != 0; }

// `index` counts the devices of the mesh from 0.
Position PositionOf(const Mesh& mesh, int64_t index);
int64_t IndexOf(const Mesh& mesh, const Position& position);

// The devices (counted from 0 within the mesh, ascending) that differ from `index` only along the axes of the
// set: the group of a collective over these axes, its members in row-major order.
std::vector<int64_t> AxisGroup(const Mesh& mesh, int64_t index, AxisMask axes);
int64_t GroupSize(const Mesh& mesh, AxisMask axes);
// Is the device the first member of that group? To list all groups, ask this first: listing the group of every device
// takes as many steps as devices times the size of a group.
bool IsFirstOfGroup(const Mesh& mesh, int64_t index, AxisMask axes);

}  // namespace heddle
