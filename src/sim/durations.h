// How long every task of a class of devices takes by itself: seconds of compute by term, or what a collective puts
// on its links.
#pragma once

#include <vector>

#include "cost/compute.h"
#include "program/program.h"
#include "sim/classes.h"
#include "sim/task_list.h"

namespace heddle {

struct TaskCost {
  Terms terms;         // of work on the device; empty for communication
  double seconds = 0;  // terms.total()
  double latency = 0;  // of a collective
  double volume = 0;   // bytes that its links' weights are per byte of
  double flops = 0;    // contractions, of a Run; recomputed ones among them
};

// Per TaskList::keys.
std::vector<TaskCost> FindCosts(const Program& program, const DeviceProgram& run,
                                const TaskList& tasks, const Classes& classes, int device_class,
                                const ComputeCost& compute);

}  // namespace heddle
