// Training: the same loop on every device of a program.
#pragma once

#include <functional>
#include <vector>

#include "program/program.h"
#include "program/step_record.h"
#include "program/trace.h"
#include "runtime/data/data_source.h"
#include "runtime/executor.h"
#include "runtime/lr_schedule.h"
#include "runtime/transport/transport.h"
#include "runtime/weights.h"

namespace heddle {

struct TrainOptions {
  int64_t steps = 10;
  uint64_t seed = 0;
  OptimizerOptions optimizer;
  LrSchedule lr;
  double clip_norm = 0;  // 0: gradients as they are
  bool trace = false;
  int threads = 1;  // for the kernels of a device
};

struct TrainInputs {
  const Program& program;
  WeightSource weights;
  ConstantSource constants;
  const DataSource& data;
};

struct TrainSummary {
  std::vector<StepRecord> steps;
  int64_t peak_memory_bytes = 0;  // of the process that used most
  Trace trace;                    // of all devices; on the first one only
};

// Trains as device transport.rank() and calls `on_step` after every step, on the first device only. Throws
// InputError for data that does not fit, RunError where the loss is not finite.
TrainSummary TrainDevice(const TrainInputs& inputs, const TrainOptions& options,
                         Transport& transport,
                         const std::function<void(const StepRecord&)>& on_step);

}  // namespace heddle
