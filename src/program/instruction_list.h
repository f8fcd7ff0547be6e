// A list of instructions being written, and the buffers they speak of.
#pragma once

#include <vector>

#include "program/program.h"

namespace heddle {

class InstructionList {
 public:
  explicit InstructionList(DeviceProgram& run) : run_(run) {}

  DeviceProgram& run() { return run_; }

  // The id of a buffer, invalid where there is none yet.
  BufferId Find(const Buffer& b) const {
    return slots_.empty() ? BufferId{} : BufferId{slots_[SlotOf(b)]};
  }
  bool Exists(const Buffer& b) const { return Find(b).valid(); }

  // The id of a buffer, made where there is none yet.
  BufferId Get(const Buffer& b, bool persistent = false) {
    if (2 * (run_.buffers.size() + 1) > slots_.size()) Grow();
    int& slot = slots_[SlotOf(b)];
    if (slot < 0) {
      slot = static_cast<int>(run_.buffers.size());
      run_.buffers.push_back(b);
      if (persistent) run_.persistent.push_back(BufferId{slot});
    }
    return BufferId{slot};
  }

  // What is added from now on belongs to another visit, or to an earlier one.
  void BeginVisit(const ShardVisit& visit) {
    if (!run_.visits.empty() && run_.visits.back() == visit) return;
    visit_ = static_cast<int>(run_.visits.size());
    run_.visits.push_back(visit);
  }
  void GoToVisit(int visit) { visit_ = visit; }

  // Valid until the next one is added.
  Instruction& Add(Opcode op, Stream stream, int stage, int index, int microbatch) {
    Instruction& instruction = run_.instructions.emplace_back();
    instruction.op = op;
    instruction.stream = stream;
    instruction.stage = stage;
    instruction.index = index;
    instruction.microbatch = microbatch;
    instruction.visit = visit_;
    return instruction;
  }

 private:
  // A table of open addresses: the place of the buffer, or the free one where it would be.
  size_t SlotOf(const Buffer& b) const {
    uint64_t hash = static_cast<uint64_t>(b.kind) + 8 * static_cast<uint64_t>(b.version + 1);
    for (int part : {b.stage, b.index, b.microbatch}) {
      hash = (hash ^ static_cast<uint64_t>(static_cast<uint32_t>(part))) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    size_t mask = slots_.size() - 1;
    size_t at = static_cast<size_t>(hash) & mask;
    while (slots_[at] >= 0 && run_.buffers[static_cast<size_t>(slots_[at])] != b) {
      at = (at + 1) & mask;
    }
    return at;
  }

  void Grow() {
    slots_.assign(slots_.empty() ? 1024 : 2 * slots_.size(), -1);
    for (size_t i = 0; i < run_.buffers.size(); ++i) {
      slots_[SlotOf(run_.buffers[i])] = static_cast<int>(i);
    }
  }

  DeviceProgram& run_;
  int visit_ = 0;
  std::vector<int> slots_;  // of run_.buffers, or -1; a power of two of them
};

// Puts the reductions of gradients where the last has been added, and the updates of what is spilled after them; ends the
// step: what tied weights and shards still need, the report, updates, and the gathering of updated weights. State that
// is on the host comes `ahead` visits before its update.
void EndStep(const Program& program, int ahead, InstructionList& list);

}  // namespace heddle
