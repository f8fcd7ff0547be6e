// The progress line of a command with a few long phases. A thread keeps it up to date during a phase.
//
//   Phases phases("simulating", 3);
//   phases.Begin("lowering"); ...
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "base/progress.h"

namespace heddle {

class Phases {
 public:
  Phases(std::string label, int64_t count) : progress_(std::move(label), count) {
    ticker_ = std::jthread([this](const std::stop_token& stop) { Tick(stop); });
  }

  void Begin(std::string name) {
    std::lock_guard lock(mutex_);
    name_ = std::move(name);
    ++begun_;
  }

  // Changes the name of the current phase.
  void Rename(std::string name) {
    std::lock_guard lock(mutex_);
    name_ = std::move(name);
  }

 private:
  void Tick(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, stop, std::chrono::milliseconds(100),
                           [&] { return stop.stop_requested(); })) {
      if (begun_ > 0) progress_.Update(begun_ - 1, name_);
    }
  }

  Progress progress_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::string name_;
  int64_t begun_ = 0;
  std::jthread ticker_;  // the last member, so that it is destroyed first
};

}  // namespace heddle
