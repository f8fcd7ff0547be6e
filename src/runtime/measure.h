// What devices measured, brought together at the end of a run.
#pragma once

#include <cstdint>

#include "runtime/executor.h"
#include "runtime/train_summary.h"
#include "runtime/transport/transport.h"

namespace heddle {

// The most that this process has been resident with.
int64_t PeakProcessBytes();

// The largest of a number over all devices: all call it together, `all` being the group of all. Waits.
int64_t Largest(Transport& transport, GroupHandle all, int64_t mine);

// Fills the measurements of a summary with at least one step, on every device; its trace, on the first one, if
// `trace`. `peak_memory` is that of this device's tensors. All devices call it together. Waits.
void ShareMeasurements(Executor& executor, Transport& transport, GroupHandle all, at::Device device,
                       int64_t peak_memory, bool trace, TrainSummary& summary);

}  // namespace heddle
