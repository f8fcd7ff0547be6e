// Distinguishes the devices of a stage's mesh. Devices of one stage run the same instructions; their times and memory
// differ only where their blocks (local shards) differ: where a sharding divides a dimension unevenly, where one of
// several replicas updates the weights for the others, or where a mask keeps different numbers of weights in each
// shard.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace heddle {

// A hash of two hashes, which depends on their order.
uint64_t MixHashes(uint64_t a, uint64_t b);

class DeviceBlocks {
 public:
  DeviceBlocks(const Program& program, const StageProgram& stage);

  // A hash of the sizes of the device's blocks: devices with equal hashes have equal blocks. 0 where all devices of the
  // stage have equal blocks.
  uint64_t At(int64_t device) const;

 private:
  const StageProgram& stage_;
  std::vector<Sharding> shardings_;            // shardings whose blocks are not all equal
  std::vector<const ParameterGroup*> served_;  // groups that one device of several updates
  std::vector<const ParameterSlot*>
      pruned_;  // slots whose shards keep different numbers of weights
};

}  // namespace heddle
