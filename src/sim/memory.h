// The memory of a device while it runs its list of instructions, and its peak.
//
//   MemoryModel model(program);
//   MemoryTimeline timeline = Replay(model, device);
//   timeline.peak, timeline.peak_instruction, timeline.peak_kinds, timeline.held
//
// The list is replayed in order: storages begin at the instruction that writes them and end at the one that frees their
// last holder. A buffer of the program holds a storage, and so does what a segment keeps for backward: a kept value
// stays after its buffer is freed, and is counted once. kept.h describes the inside of a segment. The replay knows no
// times: what a communication needs besides its operands (flat and padded copies) lives until the next communication of
// the device begins.
//
//   weights      as nodes read them, in the compute type (ZeRO 3: the chunk that stays on the device)
//   gradients    of weights: accumulated ones, and reduced ones
//   optimizer    moments, and master weights where their type differs from that of the weights
//   activations  values, what is kept for backward, and gradients of activations
//   buffers      temporaries of one instruction (inside segments, copies for communication and updates),
//                gathered weights, constants
//
// Workspaces inside kernels (cuBLAS, NCCL) and the CUDA context are not counted.
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

// A stage as one of its devices sees it: the bytes of its buffers, by index.
struct StageMemory {
  IdVector<LocalId, int64_t> locals;
  // Bytes that the reshard step of this Local needs besides its operands.
  IdVector<LocalId, int64_t> reshards;
  IdVector<LocalId, bool> same;  // whether the step returns its operand unchanged
  IdVector<SegmentId, SegmentMemory> segments;
  struct Group {
    int64_t weights = 0, gathered = 0, gradients = 0, reduced = 0, optimizer = 0;
    // Copies for reducing, for gathering and for the update.
    int64_t flat = 0, chunk = 0, update = 0;
  };
  IdVector<ParameterGroupId, Group> groups;
};

// The program must be sound (program/verify.h) and outlive the model. Construction is cheap. Of costs O(nodes of the
// stage) the first time; devices with equal blocks share the result. Results are cached by place in the mesh, and
// shared by all stages that are alike (alike_stages.h). Several threads may call at the same time.
class MemoryModel {
 public:
  explicit MemoryModel(const Program& program, MemoryHabits habits = {});

  const Program& program() const { return program_; }
  const MemoryHabits& habits() const { return habits_; }
  // The result is valid as long as the model.
  const StageMemory& Of(StageId stage, int64_t device) const;
  // The bytes that a send or receive needs besides its operands.
  int64_t MessageBytes(const Instruction& instruction, int64_t device) const;

 private:
  StageMemory Make(StageId stage, int64_t device) const;
  StageId FirstAlike(StageId stage) const;

  // A send or receive as one end of it sees it, independent of the devices of the meshes.
  struct End {
    MeshTransfer transfer;
    bool sends = false;
    int64_t index = 0;  // index of the device in its mesh
    int64_t element_bytes = 0;
    bool operator==(const End&) const = default;
  };
  int64_t CopiedBytes(const End& end) const;

  const Program& program_;
  bool split_ = false;  // some backward is split into B and W
  MemoryHabits habits_;
  mutable std::mutex mutex_;                        // guards the members below
  mutable IdVector<StageId, StageId> first_alike_;  // invalid: not computed yet
  mutable std::vector<StageId> unlike_stages_;      // the first stage of each kind
  // By the first stage that is alike.
  mutable std::map<std::pair<StageId, Position>, StageMemory> known_;
  mutable std::vector<std::pair<End, int64_t>> known_ends_;
};

struct ReplayOptions {
  bool timeline = true;  // fill in `during` and `after`
  bool kinds = false;    // fill in `kinds` and `most_kinds`
  bool allocator =
      // Run the model of PyTorch's allocator (allocator.h): fill in `allocated` and `reserved`.
      false;
};

struct MemoryTimeline {
  MemoryKinds held;  // between steps
  // After the last instruction; differs from `held` only if the program leaks memory.
  MemoryKinds left;
  int64_t peak = 0;
  // The first instruction that reaches the peak; -1: before all instructions.
  int peak_instruction = -1;
  MemoryKinds peak_kinds;
  // Per instruction: the peak while it runs, the bytes after it, and these by kind.
  std::vector<int64_t> during, after;
  std::vector<MemoryKinds> kinds;
  std::vector<MemoryKinds> most_kinds;  // the kinds at the peaks of `during`
  int64_t allocated = 0, reserved = 0;  // peaks of the allocator
};

// Takes about 0.1 us per storage: a million instructions take well under half a second without the allocator.
MemoryTimeline Replay(const MemoryModel& model, int64_t device, const ReplayOptions& options = {});

}  // namespace heddle
