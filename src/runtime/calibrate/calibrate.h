// Measures what the kernels, the optimizer and the transport of this machine take, as every rank sees it.
//
//   options.kinds = {0, 0, 1};                      // three ranks, the last on a device of another kind
//   Calibrate(options, graphs, transport, progress)[1]           // what was measured of that: alone, and with all
//
// Everything is measured with one rank at work while the others sleep, and with all of them at once: ranks of one
// machine share its cores, caches and memory. A sweep measures every sample once; sweeps go on until the time is up
// (one at least, for each number of ranks), and the median of a sample's times over the sweeps counts, so that a moment
// in which somebody else used the machine does not. Ranks of a kind then take the mean of theirs.
//
// Where a rank's thread gets less than a core, because of a quota or of more ranks than cores, the times of its clock are
// divided by the share it gets, which is measured with the same ranks at work.
//
// Kernels are those that training runs (runtime/kernels), called with the operands that nodes of `graphs` have:
// forward with autograd recording, and backward from random gradients. Products and attention are measured on a grid
// of shapes instead.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string_view>
#include <vector>

#include "cluster/measured_times.h"
#include "graph/dtype.h"
#include "graph/graph.h"
#include "runtime/transport/transport.h"

namespace heddle {

struct CalibrateOptions {
  double seconds = 60;  // for all of it; one sweep of each is done in any case
  int threads = 1;      // for the kernels of a rank
  at::Device device = at::kCPU;
  std::vector<DType> dtypes = {DType::kF32};
  bool small = false;               // a few small sizes, for tests
  std::vector<size_t> kinds = {0};  // of every rank the kind of its device, from 0 on
};

// Ranks that work at the same time, ascending. The others sleep.
using Shift = std::vector<int>;
// The first rank of every kind by itself; then all, where there are several.
std::vector<Shift> ShiftsOf(const std::vector<size_t>& kinds);

using CalibrateProgress = std::function<void(int64_t done, int64_t all, std::string_view what)>;

// The same call on every rank; all return the same: of every kind its loads, by rising number of ranks. `progress` is
// called on the first rank only. The graphs' inputs are made up. Throws InputError where a graph cannot be run.
std::vector<std::vector<LoadTimes>> Calibrate(const CalibrateOptions& options,
                                              const std::vector<Graph>& graphs,
                                              Transport& transport,
                                              const CalibrateProgress& progress);

// What beside the processor decides how long kernels and transfers take: "libtorch", "blas", "threads", "mpi"; of CUDA
// "gpu" and "cuda".
std::map<std::string, std::string, std::less<>> SoftwareFacts(int threads, at::Device device);

}  // namespace heddle
