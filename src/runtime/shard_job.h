// One training job of a fleet in shards: a program whose weights are spilled, run visit by visit on devices that jobs
// share in turns.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "program/shard_runner.h"
#include "runtime/accelerator.h"
#include "runtime/allocation_meter.h"
#include "runtime/train.h"

namespace heddle {

// A device that runs one visit at a time: a thread of the CPU with its own meter of memory, or a CUDA device. Jobs
// share its streams, so that one may use the memory that another has freed.
struct FleetDevice {
  at::Device device = at::kCPU;
  AllocationMeter meter = {};
  std::optional<c10::Stream> compute = std::nullopt, fetches = std::nullopt,
                             evictions = std::nullopt;
};

FleetDevice MakeFleetDevice(at::Device device);

// `inputs` and what they refer to, the mask and the devices outlive the job; all devices are one device of libtorch.
// The job has nothing on a device before its first visit. If it resumes from a checkpoint that keeps losses,
// `earlier_losses` gets those of the steps before. Throws InputError as TrainDevice does.
std::unique_ptr<ShardRunner> MakeShardJob(const TrainInputs& inputs, const TrainOptions& options,
                                          std::vector<FleetDevice>& fleet_devices,
                                          std::vector<double>* earlier_losses = nullptr);

}  // namespace heddle
