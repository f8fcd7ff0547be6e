// How many threads the kernels of a rank use.
#pragma once

namespace heddle {

// Of libtorch in the calling thread, and of OpenBLAS in the process, which libtorch does not tell. Ranks that are
// threads of one process share OpenBLAS's threads and would wait for each other in it.
void SetKernelThreads(int threads);

}  // namespace heddle
