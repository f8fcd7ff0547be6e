// The transport `nccl`: NCCL does the collectives of CUDA tensors; each group has its own communicator and stream.
// Everything else (tensors in host memory, messages, barriers, opening groups) goes through another transport between
// the same ranks: MPI, or threads that own a GPU each.
//
//   std::unique_ptr<Transport> transport = MakeNcclTransport(mpi, {at::kCUDA, 0});
//
// NCCL rounds bf16 and f16 after every addition and loses a NaN in a maximum. Therefore such sums are taken in f32, and
// such maxima over integers in the same order. NCCL needs one GPU per rank. It matches messages by their order, not by
// tags, so messages go through pinned host memory.
#pragma once

#include <ATen/ATen.h>

#include <memory>

#include "runtime/transport/transport.h"

namespace heddle {

struct NcclOptions {
  double deadline_seconds = 60;
  RankSlot* slot = nullptr;  // see TransportOptions
  // Groups of one rank also use NCCL and wait for it: for tests on a machine with one GPU.
  bool lone_groups = false;
};

// Whether heddle was built with NCCL.
bool HasNccl();

// All ranks call it; `host` outlives the result. Throws RunError where NCCL does not start or was not built in.
std::unique_ptr<Transport> MakeNcclTransport(Transport& host, at::Device device,
                                             const NcclOptions& options = {});

}  // namespace heddle
