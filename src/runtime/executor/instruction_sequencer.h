// When instructions begin and end on a device, and what is measured of them. What they do is for their handlers
// (instruction_handlers.h).
//
// Instructions begin in the order of the program. One begins when the transfers that make its operands are finished; a
// transfer goes on behind the instructions after the one that started it. This class alone waits inside a step:
// execution that waits by events on the device would take its place, with the same handlers.
//
//   sequencer.BeginStep(step);
//   sequencer.Run();                     // or Run(first, last) piece by piece
//   sequencer.WriteTimes(record);
//
// Per instruction it costs two readings of the host's clock, a sign of life, and on an accelerator a mark on the
// stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "program/step_record.h"
#include "runtime/accelerator.h"
#include "runtime/allocation_meter.h"
#include "runtime/executor/device_state.h"
#include "runtime/executor/gradient_memory.h"
#include "runtime/executor/instruction_handlers.h"
#include "runtime/executor/step_times.h"
#include "runtime/executor/trace_recorder.h"
#include "runtime/executor/transfers_in_flight.h"

namespace heddle {

class InstructionSequencer {
 public:
  struct Options {
    bool trace = false;
    RankSlot* slot = nullptr;  // where to say which instruction the device is at; null: nowhere
  };
  // State, handlers and the meter of the device's tensors outlive it.
  InstructionSequencer(DeviceState& state, InstructionHandlers& handlers,
                       const AllocationMeter& meter, Options options);

  void BeginStep(int64_t step);

  // The instructions [first, last) of the program; after the last one of all it waits for every transfer.
  void Run(size_t first, size_t last);
  void Run() { Run(0, state_.run.instructions.size()); }
  // Fetches of [first, last) begin now, ahead of their turn. Another thread may call it while nothing else runs.
  void Prefetch(size_t first, size_t last);

  StepTimes& times() { return times_; }
  // At the end of a step, once the device has done it.
  void WriteTimes(StepRecord& record);
  const Trace& trace() const { return trace_.trace(); }
  int64_t most_gradient_bytes() const { return gradient_memory_.most_bytes(); }

  // No transfer is writing a buffer: the executor may leave its device.
  bool is_settled() const { return transfers_.none_writes(); }
  // After a capture that failed.
  void Drop() { transfers_.Drop(); }

 private:
  void GiveSign(size_t instruction);
  void RunOne(size_t index);
  void Execute(size_t index, size_t event);
  void Free(const Instruction& i);
  int64_t MemoryNow() const;

  DeviceState& state_;
  InstructionHandlers& handlers_;
  const AllocationMeter& meter_;
  RankSlot* slot_;
  int64_t step_ = 0;
  StepTimes times_;
  TraceRecorder trace_;
  TransfersInFlight transfers_;
  GradientMemory gradient_memory_;
  std::unique_ptr<StepClock> clock_;  // of an accelerator: its time, not the host's
  std::vector<char> prefetched_;      // per instruction: done ahead of its turn
};

}  // namespace heddle
