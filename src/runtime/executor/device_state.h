// What all parts of an executor share: which device of which program it is, and the tensors it holds now.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>

#include "program/program.h"
#include "runtime/executor/communicators.h"
#include "runtime/parameters/device_parameters.h"

namespace heddle {

struct DeviceState {
  const Program& program;
  const DeviceProgram& run;
  int64_t device = 0;  // of the program
  at::Device on;
  // Of a program of LowerForward, on the parameters of an executor that trains.
  bool forward_only = false;
  // Jobs of a fleet take turns on the device: what a visit does not touch is on the host (job_residency.h).
  bool shares_device = false;
  std::optional<c10::Stream> stream = std::nullopt;  // of all work on a device other than the CPU
  std::shared_ptr<Communicators> communicators = nullptr;
  std::shared_ptr<DeviceParameters> parameters = nullptr;
  IdVector<BufferId, at::Tensor> buffers = {};  // undefined: empty

  const StageProgram& stage(StageId id) const { return program.stages[id]; }
  Position position(StageId id) const { return PositionIn(stage(id), device); }
};

}  // namespace heddle
