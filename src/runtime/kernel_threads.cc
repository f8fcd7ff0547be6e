#include "runtime/kernel_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle {

void SetKernelThreads(int threads) {
  at::set_num_threads(threads);
  using SetThreads = void (*)(int);
  auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set != nullptr) set(threads);
}

void ForEachInThreads(int64_t count, const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> next = 0;
  std::exception_ptr wrong;
  std::mutex keeping;
  auto take = [&] {
    try {
      for (int64_t i; (i = next++) < count;) work(i);
    } catch (...) {
      next = count;
      std::lock_guard lock(keeping);
      if (!wrong) wrong = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int64_t t = 1; t < std::min<int64_t>(at::get_num_threads(), count); ++t)
    others.emplace_back(take);
  take();
  for (std::thread& other : others) other.join();
  if (wrong) std::rethrow_exception(wrong);
}

}  // namespace heddle
