// Finding, moving and erasing the instructions of a program, to make the mistakes that Verify must find.
#pragma once

#include <vector>

#include "program/program.h"

namespace heddle {

struct Where {
  Opcode op = Opcode::kRun;
  int microbatch = -2;  // any
  Half half = Half::kF;
  SegmentId segment = {};  // invalid: any
};

inline size_t Find(const DeviceProgram& run, const Where& where, size_t nth = 0) {
  for (size_t i = 0; i < run.instructions.size(); ++i) {
    const Instruction& at = run.instructions[i];
    bool fits = at.op == where.op &&
                (where.microbatch == -2 || at.microbatch == where.microbatch) &&
                (!where.segment.valid() || at.target == InstructionTarget(where.segment)) &&
                (at.op != Opcode::kRun || at.half == where.half);
    if (fits && nth-- == 0) return i;
  }
  HEDDLE_CHECK(false, "there is no {}", NameOf(where.op));
  return 0;
}

// Puts the instructions in another order (or leaves some out); waits follow.
inline void Reorder(DeviceProgram& run, const std::vector<size_t>& order) {
  std::vector<int> moved(run.instructions.size(), -1);
  std::vector<Instruction> list;
  for (size_t i : order) {
    moved[i] = static_cast<int>(list.size());
    list.push_back(run.instructions[i]);
  }
  for (Instruction& at : list) {
    std::vector<int> waits;
    for (int wait : at.waits) {
      if (moved[static_cast<size_t>(wait)] >= 0) waits.push_back(moved[static_cast<size_t>(wait)]);
    }
    at.waits = waits;
  }
  run.instructions = std::move(list);
}

inline std::vector<size_t> OrderOf(const DeviceProgram& run) {
  std::vector<size_t> order(run.instructions.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  return order;
}

inline void Erase(DeviceProgram& run, size_t i) {
  std::vector<size_t> order = OrderOf(run);
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
  Reorder(run, order);
}

// Instruction `i` to just after `target` (or, backward, to just before it).
inline void Move(DeviceProgram& run, size_t i, size_t target) {
  std::vector<size_t> order = OrderOf(run);
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(target), i);
  Reorder(run, order);
}

inline Instruction& At(DeviceProgram& run, const Where& where, size_t nth = 0) {
  return run.instructions[Find(run, where, nth)];
}

// The instruction that frees something, from `from` on.
inline Instruction& Frees(DeviceProgram& run, size_t from = 0) {
  for (size_t i = from; i < run.instructions.size(); ++i) {
    if (!run.instructions[i].frees.empty()) return run.instructions[i];
  }
  return run.instructions.back();
}

inline ReshardStep& StepOf(Program& program, StepKind kind) {
  for (StageProgram& stage : program.stages) {
    for (ReshardStep& step : stage.steps) {
      if (step.kind == kind) return step;
    }
  }
  HEDDLE_CHECK(false, "there is no {}", Name(kind));
  return program.stages.front().steps.front();
}

}  // namespace heddle
