// A mesh: a stage's devices, a consecutive run of the device order, laid out row-major over at most three
// logical axes.
//
//   Mesh mesh{.first = 8, .axes = {{"dp", 2}, {"tp", 4}}};     devices 8..15
//   PositionOf(mesh, 5) == {1, 1}                                 device 13: dp 1, tp 1
//   AxisGroup(mesh, 5, AxisSet(1)) == {4, 5, 6, 7}                  those that differ from it along tp only
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

constexpr size_t kMaxAxes = 3;

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis&) const = default;
};

struct Mesh {
  int64_t first = 0;  // device
  std::vector<MeshAxis> axes;

  int64_t size() const {
    int64_t size = 1;
    for (const MeshAxis& axis : axes) size *= axis.size;
    return size;
  }
  bool operator==(const Mesh&) const = default;
};

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

}  // namespace heddle
