#include "runtime/executor/transfers_in_flight.h"

#include <algorithm>
#include <utility>

namespace heddle {
namespace {

constexpr size_t kNoWriter = static_cast<size_t>(-1);

}  // namespace

TransfersInFlight::TransfersInFlight(const DeviceProgram& run, Transport& transport,
                                     StepTimes& times, TraceRecorder& trace)
    : run_(run),
      transport_(transport),
      times_(times),
      trace_(trace),
      writer_(run.buffers.size(), kNoWriter) {}

void TransfersInFlight::Add(size_t instruction, size_t event, StartedTransfer transfer) {
  const Instruction& i = run_.instructions[instruction];
  InFlight added{std::move(transfer), instruction, event};
  if (i.op == Opcode::kSend) {
    sends_.push_back(std::move(added));
    return;
  }
  for (const auto* list : {&i.writes, &i.adds}) {
    for (BufferId id : *list) writer_[id.index()] = instruction;
  }
  writing_.emplace(instruction, std::move(added));
}

bool TransfersInFlight::Has(size_t instruction) const {
  return writing_.count(instruction) != 0 ||
         (!sends_.empty() && sends_.back().instruction == instruction);
}

void TransfersInFlight::FinishOperands(const Instruction& i) {
  for (const auto* list : {&i.reads, &i.adds, &i.writes}) {
    for (BufferId id : *list) {
      if (id.valid()) FinishBuffer(id);
    }
  }
}

void TransfersInFlight::FinishBuffer(BufferId id) {
  if (writer_[id.index()] != kNoWriter) Finish(writer_[id.index()]);
}

void TransfersInFlight::Finish(size_t instruction) {
  auto found = writing_.find(instruction);
  if (found == writing_.end()) return;
  InFlight done = std::move(found->second);
  writing_.erase(found);
  const Instruction& i = run_.instructions[instruction];
  for (const auto* list : {&i.writes, &i.adds}) {
    for (BufferId id : *list) writer_[id.index()] = kNoWriter;
  }
  times_.Charge(times_.running());
  for (Ticket& ticket : done.transfer.tickets) transport_.Wait(ticket);
  times_.Charge(i.op);
  trace_.Close(done.event, done.transfer.begin, times_.last());
  if (done.transfer.finish) done.transfer.finish();
  times_.Charge(i.op);
}

void TransfersInFlight::FinishAll() {
  while (!writing_.empty()) Finish(writing_.begin()->first);
  times_.Charge(times_.running());
  for (InFlight& send : sends_) {
    for (Ticket& ticket : send.transfer.tickets) transport_.Wait(ticket);
    times_.Charge(Opcode::kSend);
    trace_.Close(send.event, send.transfer.begin, times_.last());
  }
  sends_.clear();
}

void TransfersInFlight::Push(Opcode work) {
  if (writing_.empty() && sends_.empty()) return;
  times_.Charge(work);
  for (auto& [instruction, writing] : writing_) {
    for (Ticket& ticket : writing.transfer.tickets) transport_.Done(ticket);
    times_.Charge(OpOf(instruction));
  }
  std::erase_if(sends_, [&](InFlight& send) {
    std::erase_if(send.transfer.tickets, [&](Ticket& ticket) { return transport_.Done(ticket); });
    times_.Charge(Opcode::kSend);
    if (!send.transfer.tickets.empty()) return false;
    trace_.Close(send.event, send.transfer.begin, times_.last());
    return true;
  });
}

void TransfersInFlight::Drop() {
  writing_.clear();
  std::fill(writer_.begin(), writer_.end(), kNoWriter);
}

}  // namespace heddle
