// How values of a stage move between devices: steps of resharding, sums, and messages between stages.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "plan/exchange.h"
#include "runtime/executor/device_state.h"
#include "runtime/executor/started_transfer.h"

namespace heddle {

// One step of a chain of resharding. Who gives what to whom is found out once per value.
class ReshardHandler {
 public:
  // `state` outlives it.
  explicit ReshardHandler(DeviceState& state) : state_(state) {}

  // Nothing where the step needs no communication.
  std::optional<StartedTransfer> Reshard(const Instruction& i);

 private:
  // A step of one instruction on this device.
  struct Step;
  const Exchange& ExchangeFor(const Instruction& i, const ReshardStep& step);
  at::Tensor SourceOf(const Instruction& i, LocalId source);
  void Mask(const Step& step);
  StartedTransfer AllReduce(const Step& step);
  StartedTransfer AllGather(const Step& step);
  StartedTransfer Scatter(const Step& step);
  void Place(const Exchange& exchange, const Shape& shape, BufferId made, const at::Tensor& got);

  DeviceState& state_;
  std::map<std::pair<StageId, LocalId>, Exchange> exchanges_;
};

// Messages between stages: tiles of a value to every device that reads them there.
class MessageHandler {
 public:
  // `state` outlives it.
  explicit MessageHandler(DeviceState& state) : state_(state) {}

  // Nothing where this device has nothing to send.
  std::optional<StartedTransfer> Send(const Instruction& i);
  StartedTransfer Recv(const Instruction& i);

 private:
  const std::vector<PeerMessage>& MessagesFor(const Instruction& i, bool sends);
  int TagOf(const Instruction& i) const;

  DeviceState& state_;
  // By transfer and whether it is sent.
  std::map<std::pair<TransferId, bool>, std::vector<PeerMessage>> messages_;
};

// Adds up what the instruction reads. The first sum is a new tensor, to which the rest is added.
void RunSum(DeviceState& state, const Instruction& i);

}  // namespace heddle
