// A job in shards that stays on one device.
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
  const std::atomic<bool>* stop = nullptr;  // set: it ends after the step it is in
};

// Runs the job from where it stands. Calls `on_step` after every step. Throws RunError with what the job threw.
void RunOnOneDevice(ShardRunner& job, const OneDeviceOptions& options, const PolicyDef& policy,
                    const std::function<void(const StepRecord&)>& on_step);

}  // namespace heddle
