// What a training run came to, as it is shown and written at its end.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "program/kernel_time.h"
#include "program/opcodes.h"
#include "program/step_record.h"
#include "program/trace.h"
#include "runtime/parameters/state_bytes.h"

namespace heddle {

// The loss of held-out data.
struct HeldOutLoss {
  int64_t step = 0;  // how many steps were done
  double loss = 0;   // the mean over the batches; may not be finite
  double seconds = 0;
};

// What was measured of one device.
struct DeviceMeasurement {
  std::array<double, kOpcodeCount> kind_seconds = {};  // of the median step, see StepRecord
  int64_t peak_memory_bytes = 0;                       // of tensors, in any step
  int64_t reserved_bytes = 0;  // on CUDA: the most that the allocator took for them
  StateBytes state;
};

// The checkpoints of a run.
struct SaveSummary {
  int64_t saves = 0;
  int64_t every_steps = 0;     // from one to the next
  double held_up_seconds = 0;  // that training waited for them
  double cost_seconds = 0;     // of one save, see RunCheckpoints; 0: the interval was given
  double advised_interval_seconds = 0;  // 0: the interval was given in steps
  // On the first device: why the checkpoint of the last step is not there; empty: it is, or none was asked for.
  std::string not_saved;
};

struct TrainSummary {
  int64_t first_step = 0;         // not 0 where the run goes on from a checkpoint
  std::vector<StepRecord> steps;  // as this device measured them
  size_t median_step = 0;         // of `steps`, by the first device's time
  int64_t skipped_steps = 0;      // without an update, because gradients were not finite
  std::string not_captured;       // why steps were not repeated as a graph
  std::vector<HeldOutLoss> evaluations;
  SaveSummary saving;

  std::vector<DeviceMeasurement> devices;
  int64_t peak_memory_bytes = 0;   // of tensors, on the device that held most; 0 without a meter
  int64_t reserved_bytes = 0;      // likewise what the allocator took for them; 0 on the CPU
  StateBytes state;                // of the model, on the device that held most of it
  int64_t peak_process_bytes = 0;  // resident, of the process that used most; its ranks may be many
  // Of a step, on this device: copied from the host and to it.
  int64_t fetched_bytes = 0, evicted_bytes = 0;

  Trace trace;                      // of all devices; on the first one only
  std::vector<KernelTime> kernels;  // of `kernel_steps` steps, of this process
  int64_t kernel_steps = 0;
};

// The step with the median of the times, the later of two; 0 where there is none.
size_t MedianStep(const std::vector<StepRecord>& steps);

}  // namespace heddle
