// The event engine: one step of a program on one device of every class.
//
// Tasks start when everything before them has ended (task_list.h). Work on a device takes the time its cost says. A
// collective starts when the last member has come to it, waits its latency, and then flows over its links at the
// max-min fair rate (fair_share.h); so does each message of a send, which is ready for a receive that comes later.
// What happens at one time is processed together, so that the result does not depend on an order.
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
  // Per run: the task of a receive by transfer and micro-batch (transfer * microbatches + microbatch); -1 where it has
  // none.
  std::vector<std::vector<int>> receive_task;
  // Per run, by channel, of those that several runs take part in: their tasks on it, in order.
  std::vector<std::vector<std::vector<int>>> channel_tasks;
  int64_t microbatches = 1;
  int inner_level = 0;  // links of this level, and deeper, lie inside a node
};

Prepared Prepare(const Program& program, const Cluster& cluster, const SimOptions& options);

// A task of a class of devices.
struct TaskRef {
  int device_class = -1;
  int task = -1;
  bool operator==(const TaskRef&) const = default;
};

struct TaskTimes {
  double ready = 0;  // everything before it has ended
  double start =
      0;  // it moves: work begins, the last member of a collective has come, the first byte flows
  double end = 0;
  TaskRef cause;  // whose end let it start; none at the beginning of the step
};

struct Timeline {
  double seconds = 0;                         // of the step
  std::vector<std::vector<TaskTimes>> times;  // per class of devices and task
  TaskRef last;                               // the task that ends last
  int64_t events = 0;
};

Timeline Execute(const Prepared& prepared, const SimOptions& options = {});

}  // namespace heddle
