// The inputs of a step on an accelerator, copied there one step ahead: rows are cut on the host, put in pinned memory,
// and copied on a stream of their own while the device computes.
//
//   StepInputs inputs(program, run, device, on, data);
//   inputs.Begin(step);          the current stream waits for them, the host does not
//   inputs.at(instruction)       the tensor that a Load makes: the same one in every step
//   inputs.Ahead(step + 1);       starts the copies for the next step
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <functional>
#include <map>
#include <vector>

#include "program/program.h"
#include "runtime/accelerator.h"
#include "runtime/single_device.h"

namespace heddle {

// Gives rows of the batch of a step, by input.
using DataFn = std::function<Batch(int64_t step, Block rows)>;

// The part of the rows of its micro-batch that a Load reads on a device.
at::Tensor LoadedPart(const Program& program, const Instruction& load, int64_t device,
                      const Batch& rows);
// The rows of the batch that belong to its micro-batch.
Block RowsOf(const Program& program, const Instruction& load);

class StepInputs {
 public:
  StepInputs(const Program& program, const DeviceProgram& run, int64_t device, at::Device on,
             DataFn data);

  void Begin(int64_t step);
  void Ahead(int64_t step);
  const at::Tensor& at(const Instruction& load) const { return held_.at(&load).ready; }

 private:
  struct Held {
    at::Tensor staged, ready;
  };
  void Bring(int64_t step);

  const Program& program_;
  const DeviceProgram& run_;
  int64_t device_;
  DataFn data_;
  c10::Stream copies_;
  c10::Event arrived_, taken_;
  std::map<const Instruction*, Held> held_;
  int64_t staged_step_ = -1;
};

}  // namespace heddle
