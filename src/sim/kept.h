// What a half of a segment makes, and what a segment keeps from forward for backward, on one device.
//
// Memory is counted by *storages*: views look at the storage of what they are views of, and the sum's gradient may be
// the gradient of both its terms. A half is written down as the order in which it makes and drops storages:
//
//   F of x -> LayerNorm -> Linear -> y, keeping       make n, make statistics, make y;  results {y}
//                                                     kept {~0 (x), n, statistics}
//   BW of it                                          make dn, make dw, release n, make dx, drop dn, release x, ...
//                                                     results {dx}
//
// From the rules of the ops (rule.h says what a node keeps), the strategies and the device's place in the mesh; what
// kernels need inside themselves is not known. Autograd adds up gradients in place where nobody else looks at them,
// hands on the gradients of sums and reshapes as they are, and lets go of what a node kept once its gradient is done,
// unless W still comes. O(nodes of the segment).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "program/program.h"

namespace heddle {

// A storage as a half names it: one of those it makes, or ~i: that of what it reads as its i-th buffer.
using StorageRef = int;

struct MadeStorage {
  int64_t bytes = 0;
  int holders = 0;  // among the results and what is kept; 0: it is gone when the half ends
  int node = -1;    // of the segment, that makes it; known of forward halves
};

struct HalfEvent {
  enum class Kind : uint8_t {
    kMake,     // one of `made`
    kDrop,     // one of `made` that ends with the half
    kRelease,  // one of what the segment keeps: `index` counts those of SegmentMemory::keeping
  };
  Kind kind = Kind::kMake;
  int index = 0;
};

struct HalfMemory {
  std::vector<MadeStorage> made;
  std::vector<HalfEvent> events;
  std::vector<StorageRef>
      results;  // per buffer it writes, in their order, but for the last where that is kSaved
  std::vector<StorageRef> kept;  // what lives on in kSaved
};

struct SegmentMemory {
  HalfMemory forward;   // that keeps nothing
  HalfMemory keeping;   // that keeps
  HalfMemory backward;  // BW
  HalfMemory inputs;    // B; kept: the gradients from which W goes on
  HalfMemory weights;   // W
  // Where gradients of weights stay as autograd gives them (MemoryHabits::eager): by group, the bytes of those that
  // backward makes.
  std::vector<std::pair<ParameterGroupId, int64_t>> gradients;
};

// What the kernels of a stack keep and need besides what the rules of ops say.
struct MemoryHabits {
  bool frees_after_b = false;  // B lets go of what W does not need
  bool keeps_scores =
      false;  // attention is no kernel of its own: softmax of the scores is kept, not the result
  bool eager = false;  // nor are RMS norms and losses: values between their kernels are kept and
                       // needed; and gradients of weights come one by one
  bool fused_loss = false;    // losses keep the logits, and make no fp32 copies of them
  bool fused_update = false;  // gradients of weights are made flat at the end of the step, and
                              // updated by kernels that need nothing besides
};

// The segments of a stage for the device at `position`. What a segment without backward would keep, and with
// `split` false the halves B and W, are left empty.
IdVector<SegmentId, SegmentMemory> MemoryOfSegments(const Program& program,
                                                    const StageProgram& stage,
                                                    const Position& position, bool split,
                                                    const MemoryHabits& habits = {});

}  // namespace heddle
