// Runs a job in shards on one device.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "fleet/policy.h"
#include "program/shard_runner.h"

namespace heddle {

struct OneDeviceOptions {
  int device = 0;
  int64_t steps = 0;  // of the whole job
  bool double_buffering = true;
  const std::atomic<bool>* stop = nullptr;  // when set, the job stops after its current step
};

// Runs the job from its current step. Calls `on_step` after every step. Throws RunError with the message of the job's
// error.
void RunOnOneDevice(ShardRunner& job, const OneDeviceOptions& options, const PolicyDef& policy,
                    const std::function<void(const StepRecord&)>& on_step);

}  // namespace heddle
