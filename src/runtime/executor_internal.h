// Parts of the executor that its files share.
#pragma once

#include <vector>

#include "runtime/executor.h"
#include "runtime/kept_tensors.h"
#include "runtime/kernels/kernel.h"

namespace heddle {

// A segment made ready: kernels, blocks, and when values are no longer needed.
struct Executor::SegmentRun {
  const Segment* segment = nullptr;
  std::vector<KernelFn> kernels;           // per node
  std::vector<std::vector<Block>> blocks;  // per node, at micro-batch 0
  std::vector<std::vector<int64_t>>
      shifts;  // per node and factor: how far each micro-batch lies from the last
  std::vector<std::vector<ValueId>> last_uses;  // per node
  std::vector<bool> late;                       // per node: its weights' gradients are W's
  std::vector<size_t> late_nodes;
};

// What a segment keeps for backward.
struct Executor::Saved {
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
  // Of a program that roams: what autograd has of it, and where.
  KeptTensors kept;
  bool on_host = false;
};

struct Executor::Pending {
  double begin = 0;
  size_t event = 0;  // of the trace
  Ticket ticket;
  std::vector<Ticket> more;
  std::vector<at::Tensor> keep;
  std::function<void()> finish;
  std::vector<BufferId> buffers;
};

}  // namespace heddle
