// A loop over independent pieces, on all cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle {

// Calls function(i) for all i below `count`, on as many threads as there are cores; what is called must not depend on the
// order. The first exception is thrown on once all have ended.
template <typename Function>
void InParallel(size_t count, const Function& function) {
  size_t workers = std::min<size_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  std::atomic<size_t> next = 0;
  std::exception_ptr failed;
  std::mutex mutex;
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        function(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failed) failed = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t w = 1; w < workers; ++w) threads.emplace_back(work);
    work();
  }
  if (failed) std::rethrow_exception(failed);
}

}  // namespace heddle
