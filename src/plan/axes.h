// The axes of parallelism, in one table: what nodes do along each, which degree its size counts for, and how options,
// screens and files name it. The expert's rules, the search, the command line and reports read the table; no other file
// compares names of axes.
//
//   const ParallelAxis* axis = FindAxis("cp");
//   axis->role                     AxisRole::kContext
//   degrees.*axis->degree          what --cp asked for
//   AxisWithRole(mesh, axis->role) which axis of a mesh it is; -1: none
//
// To add an axis: its entry in axes.cc (and a role here where none fits), its degree in `Degrees` (expert.h), what the
// expert's nodes do along it (expert_strategies.cc), and the sizes that the search tries (search/expert/expert_degrees.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "plan/mesh.h"

namespace heddle {

struct Degrees;

// What the expert's nodes do along an axis. The search lets a node split any factor along any axis but those of data.
enum class AxisRole : uint8_t {
  kReplicatedData,  // every node splits the batch; ranks hold the same parameters
  kShardedData,     // as above, and ZeRO splits state among these ranks only (hybrid sharding)
  kExpert,    // nodes with experts split these, all others the batch; a part of the data ranks
  kContext,   // nodes split the sequence
  kTensor,    // nodes split any factor: heads, rows and columns of matrices, the vocabulary
  kPipeline,  // stages of the pipeline, which are not an axis of a mesh
};

// Does every node outside of experts split the batch along an axis of this role?
constexpr bool SplitsBatch(AxisRole role) {
  return role == AxisRole::kReplicatedData || role == AxisRole::kShardedData ||
         role == AxisRole::kExpert;
}
// Do ranks along an axis of this role hold the same parameters, except those of experts? ZeRO splits state along such axes.
constexpr bool ReplicatesParameters(AxisRole role) {
  return SplitsBatch(role) || role == AxisRole::kContext;
}

struct ParallelAxis {
  std::string_view
      name;  // in meshes and screens; of a degree also its JSON key, its column and, after --, its option
  AxisRole role;
  int64_t Degrees::*degree;            // which degree its size counts for
  int64_t Degrees::*within = nullptr;  // the degree that this one divides: ep is a part of dp
  int nesting = 0;  // place in a mesh, outermost first; pp comes last in products
  // The devices along it within a stage of the expert's plan. Null: such plans do not have it.
  int64_t (*expert_size)(const Degrees&) = nullptr;
  std::string_view help = {};  // of its option; empty: a second axis of a degree, without an option
  std::string_view meaning = {};  // of its name in names of plans; empty: the name is not explained
  bool always_named = false;      // screens name it where its size is 1, too
  bool searched = false;          // the exact search has it as well as the expert

  bool is_degree() const { return !help.empty(); }
};

// A flag that changes what nodes do along axes of a role.
struct AxisModifier {
  std::string_view name;  // its JSON key and, after --, its option
  bool Degrees::*flag;
  AxisRole role;
  std::string_view help;
};

// In the order of options, keys and columns.
std::span<const ParallelAxis> AllAxes();
std::span<const AxisModifier> AllAxisModifiers();
// The axes whose sizes multiply to the number of devices, outermost first: dp, cp, tp, pp.
std::span<const ParallelAxis* const> DeviceFactors();
// The axes of the expert's meshes, outermost first.
std::span<const ParallelAxis* const> ExpertMeshAxes();

// The axis with this name; null if no degree counts it.
const ParallelAxis* FindAxis(std::string_view name);
bool HasRole(const MeshAxis& axis, AxisRole role);
// The first axis of a mesh with that role; -1: none.
int AxisWithRole(const Mesh& mesh, AxisRole role);
// The axis of the expert's mesh that splits the experts: the data axis if ep equals dp. -1: there is none.
int ExpertAxisOf(const Mesh& mesh, const Degrees& degrees);

// The names of the axes of searched meshes: the data axis, and the `index`-th of `count` other axes, outermost first.
constexpr char kDataAxis[] = "dp";
std::string_view FreeAxisName(size_t index, size_t count);
MeshAxis DataAxis(int64_t size);
MeshAxis FreeAxis(size_t index, size_t count, int64_t size);
// Is the first axis of the mesh the data axis?
bool BeginsWithData(const Mesh& mesh);

}  // namespace heddle
