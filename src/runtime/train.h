// Training: the same loop on every device of a program.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <vector>

#include "base/error.h"
#include "host/lr_schedule.h"
#include "program/program.h"
#include "program/step_record.h"
#include "program/trace.h"
#include "runtime/checkpoint/run_checkpoints.h"
#include "runtime/data/data_source.h"
#include "runtime/executor.h"
#include "runtime/transport/transport.h"
#include "runtime/weights.h"

namespace heddle {

// Looks at held-out data: before the first step, every so many steps and after the last.
struct HeldOutOptions {
  int64_t every = 1;
  int64_t batches = 1;  // the first ones of the data, the same every time
};

struct HeldOutLoss {
  int64_t step = 0;  // how many steps were done
  double loss = 0;   // the mean over the batches; may not be finite
  double seconds = 0;
};

struct TrainOptions {
  int64_t steps = 10;  // of the whole run, those of checkpoints it goes on from included
  uint64_t seed = 0;
  OptimizerOptions optimizer;
  LrSchedule lr;
  double clip_norm = 0;  // 0: gradients as they are
  bool trace = false;
  int threads = 1;  // for the kernels of a device
  CheckpointOptions checkpoint;
  RankSlot* slot = nullptr;  // signs of life for a supervisor; null: there is none
  at::Device device = at::kCPU;
  bool capture = true;         // see ExecutorOptions
  bool kernels = false;        // on CUDA: measure kernels in the last steps
  const Mask* mask = nullptr;  // of what the program prunes
  HostBudget* host = nullptr;  // for what is offloaded; null: no limit
  HeldOutOptions evaluation = {};
  // Called on the first rank when everything is ready, and what it goes on from is accepted, before the first step.
  std::function<void()> on_start = {};
  // Set on any rank: all end after the step they are in, and save.
  const std::atomic<bool>* stop = nullptr;
};

ExecutorOptions ToExecutor(const TrainOptions& options);

struct TrainInputs {
  const Program& program;
  WeightSource weights;
  ConstantSource constants;
  const DataSource& data;
  Json run = Json::object();  // what checkpoints say of the run
  // What is held out, and the forward program of the same plan (LowerForward); null: nothing.
  const Program* forward = nullptr;
  const DataSource* held_out = nullptr;
};

// What was measured of one device.
struct DeviceMeasurement {
  std::array<double, kOpcodeCount> kind_seconds = {};  // of the median step, see StepRecord
  int64_t peak_memory_bytes = 0;                       // of tensors, in any step
  int64_t reserved_bytes = 0;  // on CUDA: what the allocator took for them, at most
  StateBytes state;
};

struct TrainSummary {
  int64_t first_step = 0;         // not 0 where a checkpoint was gone on from
  std::vector<StepRecord> steps;  // as this device measured them
  std::vector<HeldOutLoss> evaluations;
  size_t median_step = 0;  // of `steps`, by the first device's time
  std::vector<DeviceMeasurement> devices;
  int64_t peak_memory_bytes = 0;  // of tensors, on the device that held most; 0 without a meter
  int64_t reserved_bytes = 0;     // on CUDA: what the allocator took for them
  StateBytes state;               // of the model, on the device that held most of it
  // Of a step, on this device: copied from the host and to it.
  int64_t fetched_bytes = 0, evicted_bytes = 0;
  int64_t peak_process_bytes = 0;  // resident, of the process that used most; its ranks may be many
  Trace trace;                     // of all devices; on the first one only
  int64_t saves = 0, save_every = 0;  // checkpoints, and steps from one to the next
  double save_seconds = 0;            // that saving held training up
  double save_cost = 0;               // of one save, see RunCheckpoints; 0: its interval was given
  double advised_interval = 0;        // seconds; 0: it was given in steps
  // On the first device: why the checkpoint of the last step is not there; empty: it is, or none was asked for.
  std::string not_saved;
  int64_t skipped_steps = 0;        // without an update, because gradients were not finite
  std::vector<KernelTime> kernels;  // of `kernel_steps` steps, of this process
  int64_t kernel_steps = 0;
  std::string not_captured;  // why steps were not repeated as a graph
};

// The step with the median of the times, the later of two; 0 where there is none.
size_t MedianStep(const std::vector<StepRecord>& steps);

// Trains as device transport.rank() and calls `on_step` after every step, and `on_evaluation` likewise, on the first
// device only. Throws InputError for data that does not fit, RunError where the loss is not finite. A step whose gradients
// are not finite though its loss is updates nothing, and is counted. Memory is measured
// where the caller has called MeterAllocations (allocation_meter.h). Training is the same whether something is held out
// or not.
TrainSummary TrainDevice(
    const TrainInputs& inputs, const TrainOptions& options, Transport& transport,
    const std::function<void(const StepRecord&)>& on_step,
    const std::function<void(const HeldOutLoss&)>& on_evaluation = [](const HeldOutLoss&) {});

}  // namespace heddle
