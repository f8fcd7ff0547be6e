#include "runtime/kernel_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle {
namespace {

// Threads that wait for work. They are kept, because libtorch makes a new pool when a new thread calls it first.
class Workers {
 public:
  ~Workers() {
    {
      std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // Calls `task` in this thread and in so many of the others, unless another caller uses them. Returns when all calls
  // have returned.
  void Run(int64_t others, const std::function<void()>& task) {
    if (others <= 0 || taken_.exchange(true)) return task();
    {
      std::lock_guard lock(mutex_);
      while (std::ssize(threads_) < others) threads_.emplace_back([this] { Wait(); });
      task_ = &task;
      wanted_ = others;
    }
    changed_.notify_all();
    task();
    std::unique_lock lock(mutex_);
    wanted_ = 0;
    changed_.wait(lock, [this] { return running_ == 0; });
    taken_ = false;
  }

 private:
  void Wait() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ends_ || wanted_ > 0; });
      if (ends_) return;
      --wanted_;
      ++running_;
      const std::function<void()>* task = task_;
      lock.unlock();
      (*task)();
      lock.lock();
      if (--running_ == 0) changed_.notify_all();
    }
  }

  std::atomic<bool> taken_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
  const std::function<void()>* task_ = nullptr;
  int64_t wanted_ = 0, running_ = 0;
  bool ends_ = false;
};

}  // namespace

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
  std::function<void()> take = [&] {
    try {
      for (int64_t i; (i = next++) < count;) work(i);
    } catch (...) {
      next = count;
      std::lock_guard lock(keeping);
      if (!wrong) wrong = std::current_exception();
    }
  };
  static Workers workers;
  workers.Run(std::min<int64_t>(at::get_num_threads(), count) - 1, take);
  if (wrong) std::rethrow_exception(wrong);
}

}  // namespace heddle
