// The event engine: runs one step of a program on one device of every class.
//
// Tasks start when all their predecessors have ended (task_list.h). Work on a device takes the time that its cost says.
// A collective starts when its last member has reached it, waits for its latency, and then flows over its links at the
// max-min fair rate (fair_share.h). Messages of a send do the same; a receive may begin after they have arrived.
// Everything that happens at one time is processed together, so that the result does not depend on an order.
//
//   Prepared prepared = Prepare(program, cluster, options);     everything that does not depend on time
//   Timeline timeline = Execute(prepared);                      both throw SimulationStopped (options.h)
#pragma once

#include <cstdint>
#include <vector>

#include "sim/classes.h"
#include "sim/durations.h"
#include "sim/options.h"
#include "sim/task_list.h"

namespace heddle {

struct Prepared {
  Classes classes;
  std::vector<TaskList> lists;               // per run
  std::vector<std::vector<TaskCost>> costs;  // per class of devices
  // Per run, the task of a receive by transfer and micro-batch (transfer * microbatches + microbatch); -1 where the run
  // has none.
  std::vector<std::vector<int>> receive_task;
  // Per run and channel that several runs share: the tasks of the run on it, in order.
  std::vector<std::vector<std::vector<int>>> channel_tasks;
  int64_t microbatches = 1;
  int inner_level = 0;  // links of this level and deeper are inside a node
};

Prepared Prepare(const Program& program, const Cluster& cluster, const SimOptions& options);

// A task of a class of devices.
struct TaskRef {
  int device_class = -1;
  int task = -1;
  bool operator==(const TaskRef&) const = default;
};

struct TaskTimes {
  double ready = 0;  // all predecessors have ended
  double start =
      0;  // the work begins, the last member of a collective has arrived, or the first byte flows
  double end = 0;
  TaskRef cause;  // the task whose end allowed it to start; invalid at the beginning of the step
};

struct Timeline {
  double seconds = 0;                         // of the step
  std::vector<std::vector<TaskTimes>> times;  // per class of devices and task
  TaskRef last;                               // the task that ends last
  int64_t events = 0;
};

Timeline Execute(const Prepared& prepared, const SimOptions& options = {});

}  // namespace heddle
