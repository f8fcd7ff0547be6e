// What a device holds while it runs its list, and when most.
//
//   MemoryModel model(program);
//   MemoryTimeline timeline = Replay(model, device);
//   timeline.peak, timeline.peak_instruction, timeline.peak_kinds, timeline.held
//
// The list is gone through in its order: storages begin at the instruction that writes them and end at the one that
// frees their last holder. A buffer of the program holds a storage, and so does what a segment keeps for backward: a
// value that is kept lives on after its buffer has been freed, and counts once. kept.h says what happens inside a
// segment. Time is not known here: what a communication needs besides what it reads and writes (flat and padded
// copies) lives until the next communication of the device begins.
//
//   weights      as nodes read them, in the compute type (ZeRO 3: the chunk that stays)
//   gradients    of weights: what backward adds to, and what is reduced
//   optimizer    moments, and master weights where they are of another type than the weights
//   activations  values, what is kept for backward, and gradients on their way
//   buffers      what is there for one instruction (temporaries of segments, copies for communication and updates),
//                whole weights gathered for a while, constants
//
// Not counted: what kernels need inside (cuBLAS and NCCL workspaces, the CUDA context).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "program/program.h"
#include "sim/kept.h"

namespace heddle {

enum class MemoryKind : uint8_t { kWeights, kGradients, kOptimizer, kActivations, kBuffers };
constexpr std::array<std::string_view, 5> kMemoryKindNames = {"weights", "gradients", "optimizer",
                                                              "activations", "buffers"};

// Bytes by kind.
struct MemoryKinds {
  int64_t weights = 0, gradients = 0, optimizer = 0, activations = 0, buffers = 0;
  int64_t total() const { return weights + gradients + optimizer + activations + buffers; }
  bool operator==(const MemoryKinds&) const = default;
};

// A stage as one of its devices sees it. Bytes of what buffers hold, by their index.
struct StageMemory {
  IdVector<LocalId, int64_t> locals;
  IdVector<LocalId, int64_t> reshards;  // that a reshard step makes: what the step needs besides
  IdVector<LocalId, bool> same;         // the step gives what it got
  IdVector<SegmentId, SegmentMemory> segments;
  struct Group {
    int64_t weights = 0, gathered = 0, gradients = 0, reduced = 0, optimizer = 0;
    int64_t flat = 0, chunk = 0, update = 0;  // copies to reduce; to gather; of the update
  };
  IdVector<ParameterGroupId, Group> groups;
};

// The program must be sound (program/verify.h) and outlive the model. Costs nothing to make; Of costs O(nodes of the
// stage) the first time, and is the same for devices that hold equal blocks. It remembers what it was asked of a place in
// the mesh of a stage, for all stages that are alike (alike_stages.h). Several threads may ask at a time.
class MemoryModel {
 public:
  explicit MemoryModel(const Program& program, MemoryHabits habits = {});

  const Program& program() const { return program_; }
  const MemoryHabits& habits() const { return habits_; }
  // Valid as long as the model.
  const StageMemory& Of(StageId stage, int64_t device) const;
  // What a send or receive needs besides what it reads or writes.
  int64_t MessageBytes(const Instruction& instruction, int64_t device) const;

 private:
  StageMemory Make(StageId stage, int64_t device) const;
  StageId FirstAlike(StageId stage) const;

  // A send or receive as one end of it sees it, whatever devices the meshes are on.
  struct End {
    MeshTransfer transfer;
    bool sends = false;
    int64_t index = 0;  // of the device in its mesh
    int64_t element_bytes = 0;
    bool operator==(const End&) const = default;
  };
  int64_t CopiedBytes(const End& end) const;

  const Program& program_;
  bool split_ = false;  // some backward is B and W
  MemoryHabits habits_;
  mutable std::mutex mutex_;                        // of what follows
  mutable IdVector<StageId, StageId> first_alike_;  // invalid: not asked yet
  mutable std::vector<StageId> unlike_stages_;      // the first of each kind
  // By the first stage alike.
  mutable std::map<std::pair<StageId, Position>, StageMemory> known_;
  mutable std::vector<std::pair<End, int64_t>> known_ends_;
};

struct ReplayOptions {
  bool timeline = true;  // fill in `during` and `after`
  bool kinds = false;    // fill in `kinds` and `most_kinds`
  bool allocator =
      false;  // drive the model of PyTorch's allocator (allocator.h): `allocated` and `reserved`
};

struct MemoryTimeline {
  MemoryKinds held;  // between steps
  MemoryKinds left;  // after the last instruction: `held`, or the program leaks
  int64_t peak = 0;
  int peak_instruction = -1;  // the first of those at which it is reached; -1: before them all
  MemoryKinds peak_kinds;
  // Per instruction: the most bytes while it runs, those when it has ended, and these by kind.
  std::vector<int64_t> during, after;
  std::vector<MemoryKinds> kinds;
  std::vector<MemoryKinds> most_kinds;  // those of `during`
  int64_t allocated = 0, reserved = 0;  // peaks of the allocator
};

// Some 0.1 us per storage made; a million instructions well under half a second without the allocator.
MemoryTimeline Replay(const MemoryModel& model, int64_t device, const ReplayOptions& options = {});

}  // namespace heddle
