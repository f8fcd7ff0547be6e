// The storages that the halves of a segment make, and those that a segment keeps from forward for backward, on one
// device.
//
// Memory is counted by *storages*: views share the storage of their source, and the gradient of a sum may be the
// gradient of both its terms. A half is described by the order in which it makes and drops storages:
//
//   F of x -> LayerNorm -> Linear -> y, keeping       make n, make statistics, make y;  results {y}
//                                                     kept {~0 (x), n, statistics}
//   BW of it                                          make dn, make dw, release n, make dx, drop dn, release x, ...
//                                                     results {dx}
//
// This follows from the rules of the ops (rule.h says what a node keeps), the strategies, and the device's place in the
// mesh. Workspaces inside kernels are not modelled. Autograd accumulates gradients in place where nothing else uses
// them, passes on the gradients of sums and reshapes unchanged, and frees what a node kept once its gradient is
// computed, unless W follows later. O(nodes of the segment).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "program/program.h"

namespace heddle {

// A storage of a half: the number of one that it makes, or ~i for the storage of the i-th buffer that it reads.
using StorageRef = int;

struct MadeStorage {
  int64_t bytes = 0;
  // References from results and kept storages; 0: the storage is freed by the end of the half.
  int holders = 0;
  int node = -1;  // the node of the segment that makes it; known for forward halves only
};

struct HalfEvent {
  enum class Kind : uint8_t {
    kMake,  // makes one of `made`
    kDrop,  // drops one of `made`
    // Releases a storage that the segment keeps; `index` refers to SegmentMemory::keeping.
    kRelease,
  };
  Kind kind = Kind::kMake;
  int index = 0;
};

struct HalfMemory {
  std::vector<MadeStorage> made;
  std::vector<HalfEvent> events;
  std::vector<StorageRef>
      results;  // for each buffer that it writes, in order, except a last one of kind kSaved
  std::vector<StorageRef> kept;  // the contents of kSaved
};

struct SegmentMemory {
  HalfMemory forward;   // forward that keeps nothing
  HalfMemory keeping;   // forward that keeps what backward needs
  HalfMemory backward;  // BW
  HalfMemory inputs;    // B; `kept` has the gradients that W needs
  HalfMemory weights;   // W
  // With MemoryHabits::eager, where weight gradients stay as autograd makes them: by group, the bytes of those that
  // backward makes.
  std::vector<std::pair<ParameterGroupId, int64_t>> gradients;
};

// What the kernels of a stack keep and need in addition to the rules of the ops.
struct MemoryHabits {
  bool frees_after_b = false;  // B frees what W does not need
  // Attention is not fused: the softmax of the scores is kept instead of the result.
  bool keeps_scores = false;
  // RMS norms and losses are not fused either: the values between their kernels are kept and needed. Weight gradients
  // are separate tensors.
  bool eager = false;
  bool fused_loss = false;  // losses keep the logits and make no fp32 copies of them
  // Weight gradients are copied into a flat tensor at the end of the step and updated by kernels that need no other
  // memory.
  bool fused_update = false;
};

// The memory of a stage's segments on the device at `position`. `keeping` stays empty for a segment without backward; B
// and W stay empty where `split` is false.
IdVector<SegmentId, SegmentMemory> MemoryOfSegments(const Program& program,
                                                    const StageProgram& stage,
                                                    const Position& position, bool split,
                                                    const MemoryHabits& habits = {});

}  // namespace heddle
