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

// A node of a segment as a device runs it. `joins`: forward and backward are part of the kernel of a neighbour.
struct SegmentKernels {
  NodeKernels kernels;
  bool joins = false;
};

// Per node of the segment, for the device at `position`.
std::vector<SegmentKernels> KernelsOfSegment(const Program& program, const StageProgram& stage,
                                             const Segment& segment, const Position& position,
                                             const StackCosts& stack);

// Per TaskList::keys. Links of `inner_level` and deeper lie inside a node. `alike`: the costs of a class whose devices do
// by themselves what these do, or null.
std::vector<TaskCost> FindCosts(const Program& program, const DeviceProgram& run,
                                const TaskList& tasks, const Classes& classes, int device_class,
                                const ComputeCost& compute, int inner_level,
                                const std::vector<TaskCost>* alike);

}  // namespace heddle
