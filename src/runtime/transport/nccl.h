// The transport `nccl`: collectives of CUDA tensors by NCCL, each group with a communicator and a stream of its own.
// Everything else (tensors in host memory, messages, barriers, who is in a group) goes through another transport
// between the same ranks: MPI, or threads that own a GPU each.
//
//   std::unique_ptr<Transport> transport = MakeNcclTransport(mpi, {at::kCUDA, 0});
//
// NCCL adds bf16 and f16 up in steps, rounding each, and forgets a NaN in a maximum: such sums are taken in f32, such
// maxima of integers in the same order. It wants a GPU for every rank. It matches messages by their order alone, not
// by tags: they go through pinned host memory.
#pragma once

#include <ATen/ATen.h>

#include <memory>

#include "runtime/transport/transport.h"

namespace heddle {

struct NcclOptions {
  double deadline_seconds = 60;
  RankSlot* slot = nullptr;  // see TransportOptions
  // Groups of one rank use NCCL, too, and wait for it: a test on a machine with one GPU.
  bool lone_groups = false;
};

// Whether this heddle was built with it.
bool HasNccl();

// All ranks call it; `host` outlives it. Throws RunError where NCCL does not start, or was not built in.
std::unique_ptr<Transport> MakeNcclTransport(Transport& host, at::Device device,
                                             const NcclOptions& options = {});

}  // namespace heddle
