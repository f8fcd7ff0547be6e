// How long every task of a class of devices takes by itself: the seconds of compute by term, or the load of a
// collective on its links.
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
  double volume = 0;   // bytes; the weights of its links are per byte of volume
  double flops = 0;    // contractions of a Run, recomputed ones included
};

// A node of a segment as a device runs it. `joins`: its forward and backward are fused into a neighbour's kernel.
struct SegmentKernels {
  NodeKernels kernels;
  bool joins = false;
};

// The kernels of each node of the segment, for the device at `position`.
std::vector<SegmentKernels> KernelsOfSegment(const Program& program, const StageProgram& stage,
                                             const Segment& segment, const Position& position,
                                             const StackCosts& stack);

// Costs by TaskList::keys. Links of `inner_level` and deeper are inside a node. `alike` is null, or the costs of a
// class whose devices have equal work by themselves.
std::vector<TaskCost> FindCosts(const Program& program, const DeviceProgram& run,
                                const TaskList& tasks, const Classes& classes, int device_class,
                                const ComputeCost& compute, int inner_level,
                                const std::vector<TaskCost>* alike);

}  // namespace heddle
