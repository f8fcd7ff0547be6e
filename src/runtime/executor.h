// Runs a program for real: one Executor is one device of it.
//
//   Executor executor(program, transport, options, weights, constants, data);
//   for (int64_t step = 0; step < n; ++step) StepRecord record = executor.RunStep(step);
//
// libtorch gives tensors, kernels and autograd. Its parts, in executor/ and parameters/, are
//
//   DeviceState           which device of which program this is, and the tensors it holds
//   InstructionHandlers   what each instruction does
//   InstructionSequencer  when instructions begin and end: waiting, timing, tracing
//   StepReport            the end of a step: loss, norm, the scale of gradients, whether it is skipped
//   StepCapture           a steady step as one graph of an accelerator
//   JobResidency          moving a job of a fleet to and from a device that jobs share
//   DeviceParameters      weights, gradients and optimizer state: how they are split, in what form and where they are
//
// A second executor may evaluate the weights of the first one while it trains:
//
//   Executor held_out(forward, executor, other_data);    // LowerForward of the same plan
//   double loss = held_out.RunStep(batch).loss;
//
// Threads: used by one thread at a time, which may change.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "program/program.h"
#include "program/step_record.h"
#include "program/trace.h"
#include "runtime/accelerator.h"
#include "runtime/allocation_meter.h"
#include "runtime/executor/device_state.h"
#include "runtime/executor/instruction_handlers.h"
#include "runtime/executor/instruction_sequencer.h"
#include "runtime/executor/job_residency.h"
#include "runtime/executor/step_capture.h"
#include "runtime/executor/step_report.h"
#include "runtime/loss_scale.h"
#include "runtime/parameters/device_parameters.h"
#include "runtime/single_device.h"
#include "runtime/step_inputs.h"
#include "runtime/transport/transport.h"

namespace heddle {

struct ExecutorOptions {
  uint64_t seed = 0;  // of random ops
  OptimizerOptions optimizer;
  double clip_norm = 0;  // of all gradients of a step together; 0: they are not clipped
  std::function<double(int64_t)> lr;  // by step; none: the optimizer's
  at::Device device = at::kCPU;
  bool keep_gradients = false;  // for tests: Gradients() works, at the price of gathering them
  bool trace = false;
  RankSlot* slot = nullptr;    // where to say which instruction it is at; null: nowhere
  bool capture = true;         // on CUDA: repeat a step as one graph, where that is possible
  const Mask* mask = nullptr;  // of what the program prunes; outlives the executor
  // Streams of the device that executors share which take turns on it; none: streams of its own.
  std::optional<c10::Stream> compute = std::nullopt, fetches = std::nullopt,
                             evictions = std::nullopt;
  HostBudget* host = nullptr;  // for what is offloaded; outlives the executor; null: no limit
};

class Executor {
 public:
  // All devices of the program construct theirs together: groups are opened. Program and transport outlive it.
  Executor(const Program& program, Transport& transport, ExecutorOptions options,
           const WeightSource& weights, const ConstantSource& constants, DataFn data);
  // Of a forward program (LowerForward), on the weights that `trained` holds, which it leaves as they are. Dropout
  // keeps everything. `trained` outlives it, and neither runs while the other does.
  Executor(const Program& forward, Executor& trained, DataFn data);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // One training step; every device returns the same loss and norm. Throws RunError where the loss is not finite.
  // Where the loss is finite and a gradient is not, weights and moments stay as they are and the record says that the
  // step was skipped; groups that are updated before all gradients are there (spilled ones) stay from the first such
  // group on. Of a forward program: the loss of that step's data, finite or not.
  StepRecord RunStep(int64_t step);

  // The same in pieces: visits to shards (DeviceProgram::visits), one after the other, between which the device may do
  // something else. A visit returns when the device has done it.
  void BeginStep(int64_t step);
  void RunVisit(VisitId visit);
  StepRecord EndStep();
  // What the visit fetches is brought now. Another thread may call it while no visit of this executor runs.
  void Prefetch(VisitId visit, AllocationMeter& meter);
  // From now on a visit has on the device what it touches, and everything else is on the host, what autograd keeps for
  // backward too. What is made counts for the meter of the last RunVisit.
  void ShareDevice();
  void RunVisit(VisitId visit, AllocationMeter& meter);
  void LeaveDevice();  // all of it goes to the host

  // Why steps are not repeated as a graph; empty where they are, or will be.
  const std::string& not_captured() const { return capture_->why_not(); }
  LossScale* loss_scale() { return report_->loss_scale(); }

  // What this device holds of the weights, and of the last step's gradients.
  std::vector<ParameterPart> Weights();
  const std::vector<ParameterPart>& Gradients() const {
    return handlers_->updates().kept_gradients();
  }

  // What this device answers for of weights and moments: views, good until the next step.
  TrainState State();
  // Goes on from a checkpoint; weights are what the constructor was given. Throws InputError where it lacks what the
  // optimizer needs.
  void Restore(CheckpointReader& from);

  // What was copied from the host and to it since construction.
  const HostTraffic& host_traffic() const { return *state_.parameters->host().traffic; }

  // What the model's state takes on this device, and took in gradients at most.
  StateBytes StateMemory() const;

  // With `trace`: one event per instruction of every step so far, in the order in which they were started, and the
  // bytes of tensors at their ends; seconds since construction.
  const Trace& trace() const { return sequencer_->trace(); }

 private:
  void LoadConstants(const ConstantSource& constants);
  void ShareConstants(const DeviceState& trained);
  void MakeParts(DataFn data);
  std::pair<size_t, size_t> VisitRange(VisitId visit) const;
  StepRecord ReadReport();

  ExecutorOptions options_;
  int64_t step_ = 0;
  AllocationMeter meter_;
  AllocationMeter* metered_ = &meter_;  // that of the device it is on
  DeviceState state_;
  std::unique_ptr<StepReport> report_;
  std::unique_ptr<InstructionHandlers> handlers_;
  std::unique_ptr<InstructionSequencer> sequencer_;
  std::unique_ptr<StepCapture> capture_;
  std::unique_ptr<JobResidency> residency_;  // of a job that shares its device
};

}  // namespace heddle
