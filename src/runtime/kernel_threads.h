// How many threads the kernels of a rank use.
#pragma once

#include <cstdint>
#include <functional>

namespace heddle {

// Of libtorch in the calling thread, and of OpenBLAS in the process, which libtorch does not tell. Ranks that are
// threads of one process share OpenBLAS's threads and would wait for each other in it.
void SetKernelThreads(int threads);

// Calls work(0) .. work(count - 1), in any order, in as many threads as the kernels of the calling thread have.
// at::parallel_for would need OpenMP in our own code. What a call throws is thrown here, once all have ended.
void ForEachInThreads(int64_t count, const std::function<void(int64_t)>& work);

}  // namespace heddle
