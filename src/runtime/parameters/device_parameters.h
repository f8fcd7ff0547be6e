// All parameter groups that one device holds, and the side of the host that they share.
//
//   DeviceParameters parameters(program, device, on, optimizer, weights, host_options, mask);
//   parameters.at(stage, group).Update(reduced, factors);
//   TrainState state = parameters.State();            // for a checkpoint
//
// An executor that evaluates reads the same object as the one that trains; neither runs while the other does.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/reader.h"
#include "runtime/parameters/group_store.h"

namespace heddle {

class DeviceParameters {
 public:
  using Key = std::pair<StageId, ParameterGroupId>;

  // Where offloaded state goes: the streams of its copies, where the device has streams, and a limit (null: none). The
  // budget outlives the object.
  struct HostPlace {
    std::optional<c10::Stream> fetches, evictions;
    HostBudget* budget = nullptr;
  };

  // `program` outlives it; `weights` and `mask` are read by the constructor only.
  DeviceParameters(const Program& program, int64_t device, at::Device on,
                   const OptimizerOptions& optimizer, const WeightSource& weights,
                   const HostPlace& place, const Mask* mask);
  DeviceParameters(const DeviceParameters&) = delete;
  DeviceParameters& operator=(const DeviceParameters&) = delete;

  GroupStore& at(StageId stage, ParameterGroupId group) { return stores_.at({stage, group}); }
  GroupStore& at(const Instruction& i) { return at(i.stage, i.group()); }
  GroupStore& at(const Buffer& buffer) { return at(buffer.stage, buffer.group()); }
  // By stage and group.
  std::map<Key, GroupStore>& stores() { return stores_; }
  const std::map<Key, GroupStore>& stores() const { return stores_; }

  const HostSide& host() const { return host_; }
  // Waits until what was evicted is whole on the host.
  void WaitForCopies() const;

  // On the device, between steps, without gradients.
  StateBytes Memory() const;

  // What this device answers for of weights and moments, for a checkpoint: views, good until the next update.
  // `updates` is the number of updates so far. Waits for the device.
  std::vector<StatePart> State(int64_t& updates) const;
  // Goes on from the moments of a checkpoint after so many updates. Those of an optimizer of another kind than
  // `optimizer` are of no use: then it starts with none. Throws InputError where the checkpoint lacks what the
  // optimizer needs.
  void Restore(CheckpointReader& from, int64_t updates, const std::string& optimizer);

 private:
  HostSide host_;
  std::map<Key, GroupStore> stores_;
};

}  // namespace heddle
