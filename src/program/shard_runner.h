// A training job that runs shard by shard, each visit on whatever device it is given: what a fleet drives, and the runtime
// implements.
//
//   job.Prefetch(visit, device);             what the visit needs comes there, ahead of it
//   auto record = job.Run(visit, device);    the last visit of a step ends it
//   job.Leave();                             nothing of it is on the device any more
//
// What the caller guarantees: visits 0 .. visits() - 1 of a step run in order, one at a time, and the job leaves a device
// before it is prefetched for another or runs there. Prefetch may be called by another thread while the visit before it
// runs; everything else by one thread at a time.
// What an implementer does: results do not depend on the devices that are chosen. Whatever it throws (InputError,
// RunError) ends this job and no other.
#pragma once

#include <cstdint>
#include <optional>

#include "program/step_record.h"

namespace heddle {

class ShardRunner {
 public:
  virtual ~ShardRunner() = default;

  virtual int visits() const = 0;
  virtual int64_t first_step() const = 0;  // not 0 where it goes on from a checkpoint
  virtual void Prefetch(int visit, int device) = 0;
  virtual std::optional<StepRecord> Run(int64_t step, int visit, int device) = 0;
  virtual void
  Leave() = 0;  // also of one that has failed, wherever it stood; nothing comes after that
  // No step comes after the last one that was run: what is to be saved is.
  virtual void Finish() = 0;
};

}  // namespace heddle
