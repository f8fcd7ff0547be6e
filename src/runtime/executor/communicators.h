// The groups of devices that exchange tensors in a program, opened once, and collectives among them.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <vector>

#include "program/program.h"
#include "runtime/transport/transport.h"

namespace heddle {

class Communicators {
 public:
  // Opens every group that the device is in, in the order of their members: all devices construct theirs together.
  // `transport` outlives it.
  Communicators(const Program& program, int64_t device, Transport& transport);

  Transport& transport() const { return transport_; }

  // The collective of an instruction of a device, which may be one of another program with the same groups. Checks
  // that the bytes handed over are those that the program states.
  Ticket Start(const Program& program, const Instruction& i, int64_t device, Reduction reduction,
               const at::Tensor& give, const at::Tensor& get) const;

  // The whole flat tensor of `elements` of a group of parameters that is split over ZeRO's axes. Waits; the devices of
  // the group call it together.
  at::Tensor GatherWhole(const Program& program, StageId stage, ParameterGroupId group,
                         int64_t device, const at::Tensor& chunk, int64_t elements) const;
  // The largest of each number over all devices of the program. Waits; all devices call it together.
  void MaximumOverAll(const Program& program, at::Tensor& numbers) const;

 private:
  Transport& transport_;
  std::map<std::vector<int64_t>, GroupHandle> groups_;
};

}  // namespace heddle
