// What each instruction does on a device: one handler per opcode. When an instruction may begin, and what is measured
// of it, is the sequencer's (instruction_sequencer.h).
//
// A handler reads and writes buffers of the device state that are there, enqueues its work on the current stream, and
// returns; the host waits for nothing. An instruction that communicates returns what it has started: its buffers are
// there once that is finished.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/executor/device_state.h"
#include "runtime/executor/gradient_handlers.h"
#include "runtime/executor/load_handler.h"
#include "runtime/executor/segment_handlers.h"
#include "runtime/executor/started_transfer.h"
#include "runtime/executor/step_report.h"
#include "runtime/executor/update_handlers.h"
#include "runtime/executor/value_handlers.h"

namespace heddle {

class InstructionHandlers {
 public:
  struct Options {
    uint64_t seed = 0;  // of random ops
    bool keep_gradients = false;
  };
  // State and report outlive it.
  InstructionHandlers(DeviceState& state, StepReport& report, DataFn data, Options options);

  void BeginStep(int64_t step);

  // Nothing: the instruction is done as far as the host is concerned.
  std::optional<StartedTransfer> Start(const Instruction& i);

  // What spilled weights that an instruction reads wait for: the current stream goes on when they have been fetched.
  void AwaitFetched(const Instruction& i);

  // Gives up what a buffer holds. What was fetched for it is given up too, at once or, where devices are shared, when
  // the visit is over: others would wait for the current stream otherwise.
  void Free(BufferId id);
  void ReleaseAfterVisit();

  // After a capture that failed: what was made in it holds nothing.
  void Drop();

  LoadHandler& loads() { return loads_; }
  SegmentHandlers& segments() { return segments_; }
  const UpdateHandlers& updates() const { return updates_; }

 private:
  void ReleaseFetched(const Buffer& buffer);

  DeviceState& state_;
  LoadHandler loads_;
  SegmentHandlers segments_;
  ReshardHandler reshards_;
  MessageHandler messages_;
  GradientHandlers gradients_;
  UpdateHandlers updates_;
  bool spills_;
  std::vector<BufferId> release_after_visit_;
};

}  // namespace heddle
