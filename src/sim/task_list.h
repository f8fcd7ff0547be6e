// A device's instructions as a graph of tasks: what must have ended before each may start.
//
//   queues   Tasks of one queue run one after the other. Compute is one, copies to the device another, copies
//            from it a third, and every communicator (the groups of some axes of a mesh) one more; sends and receives
//            wait for nobody. What a stack does not overlap stands in the queue of compute, reductions of a step's
//            gradients at its end.
//   data     A task waits for its instruction's `waits`, and communication for the last that wrote what it reads.
//   issue    Nothing is issued before the compute instruction that precedes it in the list could start: so ZeRO 3
//            gathers no further ahead than the list says.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/constants.h"
#include "program/program.h"

namespace heddle {

enum class TaskKind : uint8_t { kLocal, kCollective, kSend, kRecv };

struct SimTask {
  TaskKind kind = TaskKind::kLocal;
  bool compute_queue = false;
  int channel = -1;          // of Channels (collectives)
  TransferId transfer = {};  // of a send or receive
  int order = -1;            // among the tasks of a channel that several runs take part in
  int cost = 0;      // of TaskList::keys
  int microbatch = -1;
};

struct TaskList {
  std::vector<SimTask> tasks;        // one per instruction
  std::vector<int> keys;             // per cost: the first instruction that has it
  std::vector<int> first_successor;  // per task, and one more: into successors
  std::vector<int> successors;
  std::vector<int> predecessors;  // their number, per task
};

// `channels`: per instruction the communicator, -1 where it is none.
TaskList MakeTaskList(const DeviceProgram& run, const std::vector<int>& channels,
                      const StackCosts& stack);

}  // namespace heddle
