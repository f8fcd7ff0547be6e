// A device's instructions as a graph of tasks: which tasks must have ended before each task may start.
//
//   queues   The tasks of one queue run one after the other. There is one queue for compute, one for copies to the
//            device, one for copies from it, and one for every communicator (the groups along some axes of a mesh).
//            Sends and receives are in no queue. What a stack does not overlap is in the queue of compute; the
//            reductions of a step's gradients are then at its end.
//   data     A task waits for its instruction's `waits`. Communication also waits for the last task that wrote what it
//            reads.
//   issue    Nothing is issued before the preceding compute instruction of the list could start, so that ZeRO 3 gathers
//            no further ahead than the list says.
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
  int channel = -1;          // of a collective, see Channel in fabric.h
  TransferId transfer = {};  // of a send or receive
  int order = -1;            // index among the tasks of a channel that several runs share
  int cost = 0;              // index into TaskList::keys
  int microbatch = -1;
};

struct TaskList {
  std::vector<SimTask> tasks;  // one per instruction
  std::vector<int> keys;       // per cost, the first instruction that has it
  // Per task the index of its first successor; then the number of successors.
  std::vector<int> first_successor;
  std::vector<int> successors;
  std::vector<int> predecessors;  // number of predecessors per task
};

// `channels` gives the communicator of each instruction; -1 where it has none.
TaskList MakeTaskList(const DeviceProgram& run, const std::vector<int>& channels,
                      const StackCosts& stack);

}  // namespace heddle
