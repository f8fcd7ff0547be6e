// Transfers that instructions have started and that have not been waited for: when each is waited for, and when the
// transport gets time to move them on.
//
//   TransfersInFlight transfers(run, transport, times, trace);
//   transfers.FinishOperands(instruction);            // before it begins: what it touches is there
//   transfers.Add(index, event, std::move(started));  // its handler started one
//   transfers.FinishAll();                            // at the end of a step
//
// A transfer is waited for by the first instruction that reads, writes or adds to a buffer it makes. A send makes
// none: it is waited for at the end of the step. Time spent waiting and pushing is charged to the kind of the
// instruction that started the transfer.
#pragma once

#include <map>
#include <vector>

#include "program/program.h"
#include "runtime/executor/started_transfer.h"
#include "runtime/executor/step_times.h"
#include "runtime/executor/trace_recorder.h"

namespace heddle {

class TransfersInFlight {
 public:
  // All of them outlive it.
  TransfersInFlight(const DeviceProgram& run, Transport& transport, StepTimes& times,
                    TraceRecorder& trace);

  // `event` is that of the instruction in the trace.
  void Add(size_t instruction, size_t event, StartedTransfer transfer);
  bool Has(size_t instruction) const;
  // None but sends: no buffer is still being written.
  bool none_writes() const { return writing_.empty(); }

  void FinishOperands(const Instruction& i);
  void FinishBuffer(BufferId id);
  void FinishAll();
  // MPI moves transfers on inside its calls only: to be called after every piece of work.
  void Push(Opcode work);
  // After a capture that failed: transfers that were never started.
  void Drop();

 private:
  struct InFlight {
    StartedTransfer transfer;
    size_t instruction = 0;
    size_t event = 0;
  };
  void Finish(size_t instruction);
  Opcode OpOf(size_t instruction) const { return run_.instructions[instruction].op; }

  const DeviceProgram& run_;
  Transport& transport_;
  StepTimes& times_;
  TraceRecorder& trace_;
  std::map<size_t, InFlight> writing_;  // by instruction; all but sends
  std::vector<InFlight> sends_;         // in the order in which they were started
  std::vector<size_t>
      writer_;  // per buffer, the instruction that is still writing it, or kNoWriter
};

}  // namespace heddle
