// One training job of a fleet: a program whose weights are spilled, run visit by visit on devices that jobs take turns on.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "program/shard_runner.h"
#include "runtime/accelerator.h"
#include "runtime/allocation_meter.h"
#include "runtime/train.h"

namespace heddle {

// A device for one visit at a time: a thread of the CPU with memory of its own to count, or a CUDA device, whose streams
// jobs share, so that what one leaves another may take.
struct FleetDevice {
  at::Device device = at::kCPU;
  AllocationMeter meter = {};
  std::optional<c10::Stream> compute = std::nullopt, fetches = std::nullopt,
                             evictions = std::nullopt;
};

FleetDevice MakeFleetDevice(at::Device device);

// `inputs` and what they refer to, the mask and the devices, which are all on one device of libtorch, outlive it. Nothing of
// it is on a device before its first visit. `earlier_losses` gets those of the steps before the checkpoint that it goes on
// from, where checkpoints keep them. Throws InputError as TrainDevice does.
std::unique_ptr<ShardRunner> MakeShardJob(const TrainInputs& inputs, const TrainOptions& options,
                                          std::vector<FleetDevice>& fleet_devices,
                                          std::vector<double>* earlier_losses = nullptr);

}  // namespace heddle
