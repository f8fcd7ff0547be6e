// A list of instructions being written, and the buffers they speak of.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "program/program.h"

namespace heddle {

class InstructionList {
 public:
  explicit InstructionList(DeviceProgram& run) : run_(run) {}

  DeviceProgram& run() { return run_; }

  bool Exists(const Buffer& b) const { return ids_.count(KeyOf(b)) != 0; }

  // The id of a buffer, made where there is none yet.
  BufferId Get(const Buffer& b, bool persistent = false) {
    auto [found, fresh] = ids_.try_emplace(KeyOf(b), BufferId::FromIndex(run_.buffers.size()));
    if (fresh) {
      run_.buffers.push_back(b);
      if (persistent) run_.persistent.push_back(found->second);
    }
    return found->second;
  }

  // Valid until the next one is added.
  Instruction& Add(Opcode op, Stream stream, int stage, int index, int microbatch) {
    Instruction instruction;
    instruction.op = op;
    instruction.stream = stream;
    instruction.stage = stage;
    instruction.index = index;
    instruction.microbatch = microbatch;
    run_.instructions.push_back(std::move(instruction));
    return run_.instructions.back();
  }

 private:
  using Key = std::tuple<BufferKind, int, int, int, int>;
  static Key KeyOf(const Buffer& b) { return {b.kind, b.stage, b.index, b.microbatch, b.version}; }

  DeviceProgram& run_;
  std::map<Key, BufferId> ids_;
};

// Puts the reductions of gradients where the last has been added, and ends the step: what tied weights and shards
// still need, the report, updates, and the gathering of updated weights.
void EndStep(const Program& program, InstructionList& list);

}  // namespace heddle
