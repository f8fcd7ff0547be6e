// Training: the same loop on every device of a program.
#pragma once

#include <atomic>
#include <functional>

#include "base/json.h"
#include "host/lr_schedule.h"
#include "program/program.h"
#include "program/step_record.h"
#include "runtime/checkpoint/run_checkpoints.h"
#include "runtime/data/data_source.h"
#include "runtime/executor.h"
#include "runtime/held_out.h"
#include "runtime/train_summary.h"
#include "runtime/transport/transport.h"
#include "runtime/weights.h"

namespace heddle {

struct TrainOptions {
  // Of the whole run, those before the checkpoint that it goes on from included.
  int64_t steps = 10;
  uint64_t seed = 0;
  OptimizerOptions optimizer;
  LrSchedule lr;
  double clip_norm = 0;  // 0: gradients are not clipped
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
  // Called on the first rank before the first step, when everything is ready and the checkpoint to go on from is
  // accepted.
  std::function<void()> on_start = {};
  // Set on any rank: all ranks end after the step they are in, and save.
  const std::atomic<bool>* stop = nullptr;
};

ExecutorOptions ToExecutor(const TrainOptions& options);

struct TrainInputs {
  const Program& program;
  WeightSource weights;
  ConstantSource constants;
  const DataSource& data;
  Json run = Json::object();  // what checkpoints say of the run
  // The forward program of the same plan (LowerForward) and held-out data; null: nothing is held out.
  const Program* forward = nullptr;
  const DataSource* held_out = nullptr;
};

// What a run starts from: the weights of a checkpoint of this program's model, or, where `from` is null, those of the
// inputs. Throws InputError where the checkpoint is of another model. `from` outlives the result.
WeightSource StartingWeights(const TrainInputs& inputs, CheckpointReader* from);

// Trains as device transport.rank() and calls `on_step` after every step, and `on_evaluation` after every evaluation,
// on the first device only. Throws InputError for data that does not fit, RunError where the loss is not finite. A
// step whose loss is finite and whose gradients are not updates nothing, and is counted. Memory is measured where the
// caller has called MeterAllocations (allocation_meter.h). Training is the same whether something is held out or not.
TrainSummary TrainDevice(
    const TrainInputs& inputs, const TrainOptions& options, Transport& transport,
    const std::function<void(const StepRecord&)>& on_step,
    const std::function<void(const HeldOutLoss&)>& on_evaluation = [](const HeldOutLoss&) {});

}  // namespace heddle
