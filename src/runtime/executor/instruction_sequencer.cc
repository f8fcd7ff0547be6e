#include "runtime/executor/instruction_sequencer.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "host/supervisor/rank_table.h"

namespace heddle {
namespace {

// Values that a job computes once a step for all its visits are kept by the host: they count for no device.
bool IsKeptByHost(const DeviceState& state, const Instruction& i) {
  return state.shares_device && i.op == Opcode::kRun && i.microbatch < 0 && i.half == Half::kF;
}

}  // namespace

InstructionSequencer::InstructionSequencer(DeviceState& state, InstructionHandlers& handlers,
                                           const AllocationMeter& meter, Options options)
    : state_(state),
      handlers_(handlers),
      meter_(meter),
      slot_(options.slot),
      trace_(state.program, state.device, options.trace),
      transfers_(state.run, state.communicators->transport(), times_, trace_),
      gradient_memory_(state) {
  size_t instructions = state.run.instructions.size();
  if (state.stream) clock_ = std::make_unique<StepClock>(instructions + 1);
  if (Spills(state.program)) prefetched_.resize(instructions, 0);
}

// An executor that trains says where it is, one that evaluates only that it lives.
void InstructionSequencer::GiveSign(size_t instruction) {
  if (slot_ == nullptr) return;
  if (state_.forward_only) {
    slot_->Beat();
  } else {
    slot_->At(step_, instruction);
  }
}

void InstructionSequencer::BeginStep(int64_t step) {
  step_ = step;
  times_.BeginStep();
  trace_.BeginStep();
  GiveSign(0);
}

void InstructionSequencer::Run(size_t first, size_t last) {
  if (clock_ && first == 0) clock_->Mark(0);
  for (size_t i = first; i < last; ++i) {
    bool done = !prefetched_.empty() && prefetched_[i];
    if (done) {
      prefetched_[i] = 0;
      if (clock_) clock_->Mark(i + 1);
    } else {
      RunOne(i);
    }
  }
  if (last < state_.run.instructions.size()) return;
  transfers_.FinishAll();
  if (trace_.on()) trace_.SampleMemory(times_.last(), MemoryNow());
}

void InstructionSequencer::RunOne(size_t index) {
  const Instruction& i = state_.run.instructions[index];
  times_.set_running(i.op);
  GiveSign(index);
  size_t event = trace_.Open(i);
  transfers_.FinishOperands(i);
  handlers_.AwaitFetched(i);
  double begin = times_.last();
  {
    std::optional<AllocationMeter::Scope> counted;
    if (IsKeptByHost(state_, i)) counted.emplace(state_.parameters->host().meter);
    Execute(index, event);
  }
  gradient_memory_.Sample(i, step_);
  times_.Charge(i.op);
  if (clock_) clock_->Mark(index + 1);
  if (!trace_.on()) return;
  if (!transfers_.Has(index)) trace_.Close(event, begin, times_.last());
  trace_.SampleMemory(times_.last(), MemoryNow());
}

void InstructionSequencer::Execute(size_t index, size_t event) {
  const Instruction& i = state_.run.instructions[index];
  if (i.op == Opcode::kFetch) Free(i);  // it takes that memory
  if (std::optional<StartedTransfer> started = handlers_.Start(i))
    transfers_.Add(index, event, std::move(*started));
  bool worked = i.op == Opcode::kRun || i.op == Opcode::kFactorGradient;
  if (worked) transfers_.Push(i.op);
  if (i.op != Opcode::kFetch) Free(i);
}

void InstructionSequencer::Free(const Instruction& i) {
  for (BufferId id : i.frees) {
    transfers_.FinishBuffer(id);
    handlers_.Free(id);
  }
}

void InstructionSequencer::Prefetch(size_t first, size_t last) {
  for (size_t index = first; index < last; ++index) {
    const Instruction& i = state_.run.instructions[index];
    if (i.op != Opcode::kFetch || prefetched_[index]) continue;
    HEDDLE_CHECK(i.frees.empty(), "what it frees is not evicted yet");
    handlers_.Start(i);
    prefetched_[index] = 1;
  }
}

void InstructionSequencer::WriteTimes(StepRecord& record) {
  if (clock_) {
    std::vector<double> marks = clock_->Seconds();
    times_.UseDeviceTimes(state_.run, marks);
    trace_.UseDeviceTimes(times_.start(), marks);
  }
  times_.Write(record);
}

int64_t InstructionSequencer::MemoryNow() const {
  return state_.stream ? MemoryOf(state_.on).bytes : meter_.bytes();
}

}  // namespace heddle
