// A training job that a gang of devices runs: what a fleet drives, and the runtime implements.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "program/step_record.h"

namespace heddle {

class GangRunner {
 public:
  virtual ~GangRunner() = default;

  // Trains from where the job stands to its last step, on `devices` devices from `first` on, or until `stop` is set: then
  // it ends after the step it is in. A later call, on any devices, goes on from there. `on_step` is called for every
  // step, after which `stop` is looked at. Whatever it throws ends this job and no other.
  virtual void Run(int64_t first, int64_t devices, const std::atomic<bool>& stop,
                   const std::function<void(const StepRecord&)>& on_step) = 0;
};

}  // namespace heddle
