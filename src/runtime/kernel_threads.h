// How many threads the kernels of a rank use, and work of our own in as many threads.
#pragma once

#include <cstdint>
#include <functional>

namespace heddle {

// Sets the number of libtorch's threads for the calling thread, and OpenBLAS's number for the process, which libtorch
// does not pass on. Ranks that are threads of one process share OpenBLAS's threads and would wait for each other
// there.
void SetKernelThreads(int threads);

// Calls work(0) .. work(count - 1), in any order, in as many threads as the kernels of the calling thread use.
// (at::parallel_for would need OpenMP in our own code.) An exception of a call is thrown here once all calls have
// ended.
void ForEachInThreads(int64_t count, const std::function<void(int64_t)>& work);

}  // namespace heddle
