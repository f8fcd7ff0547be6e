#include "runtime/kernel_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace heddle {

void SetKernelThreads(int threads) {
  at::set_num_threads(threads);
  using SetThreads = void (*)(int);
  auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set != nullptr) set(threads);
}

}  // namespace heddle
