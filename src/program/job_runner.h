// A training job of a fleet that may run in shards, its visits on whatever devices are free, or on several devices at once.
#pragma once

#include <cstdint>
#include <vector>

#include "program/gang_runner.h"
#include "program/shard_runner.h"

namespace heddle {

class JobRunner : public GangRunner {
 public:
  // In shards, from where it stands. To be let go before the job runs on several devices.
  virtual ShardRunner& Shards() = 0;
  virtual void LetGo() = 0;

  // Steps that were saved when the fleet began.
  virtual int64_t first_step() const = 0;
  // Of all its steps so far, those of earlier runs included; Add is told of each new one.
  virtual const std::vector<double>& losses() const = 0;
  virtual void Add(const StepRecord& record) = 0;
};

}  // namespace heddle
