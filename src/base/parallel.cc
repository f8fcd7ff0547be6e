#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle {

size_t CoreCount() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    return static_cast<size_t>(std::max(1, CPU_COUNT(&allowed)));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

namespace parallel_internal {
namespace {

struct Loop {
  size_t count;
  Call call;
  const void* function;
  std::atomic<size_t> next = 0;
  size_t helpers = 0;                   // threads that work on it, besides the one that started it
  std::exception_ptr failed = nullptr;  // the first exception

  bool begun() const { return next.load(std::memory_order_relaxed) >= count; }
};

class Pool {
 public:
  Pool() {
    for (size_t i = 1; i < CoreCount(); ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { Help(stop); });
    }
  }
  ~Pool() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }

  void Run(Loop& loop) {
    if (loop.count > 1 && !threads_.empty()) {
      {
        std::lock_guard lock(mutex_);
        loops_.push_back(&loop);
      }
      if (loop.count == 2) {
        more_.notify_one();
      } else {
        more_.notify_all();
      }
    }
    Work(loop);
    std::unique_lock lock(mutex_);
    std::erase(loops_, &loop);
    ended_.wait(lock, [&] { return loop.helpers == 0; });
    if (loop.failed) std::rethrow_exception(loop.failed);
  }

 private:
  void Work(Loop& loop) {
    for (size_t i = loop.next++; i < loop.count; i = loop.next++) {
      try {
        loop.call(loop.function, i);
      } catch (...) {
        std::lock_guard lock(mutex_);
        if (!loop.failed) loop.failed = std::current_exception();
        loop.next = loop.count;
      }
    }
  }

  void Help(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (true) {
      more_.wait(lock, stop, [&] {
        std::erase_if(loops_, [](const Loop* loop) { return loop->begun(); });
        return !loops_.empty();
      });
      if (stop.stop_requested()) return;
      Loop& loop = *loops_.back();
      ++loop.helpers;
      lock.unlock();
      Work(loop);
      lock.lock();
      if (--loop.helpers == 0) ended_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any more_;
  std::condition_variable ended_;
  // Loops with iterations that have not begun, in the order in which they started.
  std::vector<Loop*> loops_;
  std::vector<std::jthread> threads_;
};

}  // namespace

void Run(size_t count, Call call, const void* function) {
  static Pool pool;
  Loop loop{count, call, function};
  pool.Run(loop);
}

}  // namespace parallel_internal
}  // namespace heddle
