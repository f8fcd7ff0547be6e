// Halves of segments: kernels forward, autograd backward.
//
// A segment is a list of kernel calls on local shards. What comes into it are leaves of autograd and what goes out is
// detached, so that autograd never crosses communication. B asks autograd for the gradients of the inputs and of the
// results of nodes whose weights wait for W; W goes on from these results to the weights, node by node.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/executor/device_state.h"
#include "runtime/executor/prepared_segment.h"
#include "runtime/kept_tensors.h"

namespace heddle {

// What a segment keeps for backward.
struct SavedSegment {
  std::vector<at::Tensor> leaves;   // per input; undefined where no gradient is wanted
  std::vector<at::Tensor> outputs;  // per output
  // Per late node: its results, and their gradients once B has run.
  std::vector<std::vector<at::Tensor>> late_results, late_gradients;
  // Inputs that are gathered again: without memory between forward and backward.
  struct Gathered {
    LocalId local;
    at::Tensor tensor;
  };
  std::vector<Gathered> gathered;
  // Of a job that shares its device: what autograd keeps of the segment, and where it is.
  KeptTensors kept;
  bool on_host = false;
};

class SegmentHandlers {
 public:
  // `state` outlives it. `seed` is that of random ops.
  SegmentHandlers(DeviceState& state, uint64_t seed);

  void BeginStep(int64_t step) { step_ = step; }
  // What the gradient of the loss is multiplied by: an f64 tensor of one number on the device; undefined: 1.
  void set_loss_scale(at::Tensor scale) { loss_scale_ = std::move(scale); }

  void Run(const Instruction& i);

  // Gives up what a buffer holds and what is kept under it.
  void Free(BufferId id);
  // By buffer.
  std::map<BufferId, SavedSegment>& saved() { return saved_; }
  // After a capture that failed: what was made in it holds nothing.
  void Drop();

 private:
  struct ForwardRun;
  void RunForward(const Instruction& i);
  void TakeInputs(ForwardRun& run);
  void RunNode(ForwardRun& run, size_t n);
  void GiveOutputs(ForwardRun& run, size_t n);
  std::vector<at::Tensor> Call(const ForwardRun& run, size_t n, std::vector<at::Tensor> operands);
  void RunBackward(const Instruction& i);
  at::Tensor SeedOf(BufferId gradient, const at::Tensor& output);
  void RunWeights(const Instruction& i);
  void ReturnGathered(const Instruction& i, const SavedSegment& saved);
  bool IsGatheredAgain(const Buffer& buffer) const;
  void GiveGradient(const Instruction& i, const SegmentInput& input, const at::Tensor& leaf,
                    at::Tensor gradient);
  PreparedSegment& segment(const Instruction& i) { return segments_.at({i.stage, i.segment()}); }

  DeviceState& state_;
  uint64_t seed_;
  int64_t step_ = 0;
  at::Tensor loss_scale_;
  PreparedSegments segments_;
  std::set<std::pair<StageId, LocalId>> again_;  // values that are gathered again for backward
  IdVector<ValueId, at::Tensor> scratch_;        // values inside the segment that runs
  std::map<BufferId, SavedSegment> saved_;
};

}  // namespace heddle
