#include "sim/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <unordered_map>

#include "base/check.h"
#include "sim/fair_share.h"

namespace heddle {
namespace {

class Engine {
 public:
  Engine(const Prepared& prepared, const SimOptions& options)
      : in_(prepared), poll_(options), network_(prepared.classes.capacities) {}

  Timeline Run() {
    Begin();
    while (true) {
      double now = Next();
      if (now == kNever) break;
      now_ = now;
      poll_.Count(kPieces);
      TakeDue();
      while (!ready_.empty()) StartReady();
    }
    for (size_t c = 0; c < left_.size(); ++c) {
      for (size_t t = 0; t < left_[c].size(); ++t) {
        HEDDLE_CHECK(done_[c][t] != 0, "task {} of device {} never ran", t,
                     in_.classes.devices[c].device);
      }
    }
    return std::move(out_);
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr size_t kPieces = 16;  // pieces of StopPoll for one point in time

  // A transfer in progress, its latency included: a collective of a group, or a message of a send.
  struct Flight {
    int group = -1, message = -1;
    TaskRef from;  // the task that started it
    double begun = 0;
  };

  const TaskList& list(int c) const {
    return in_.lists[static_cast<size_t>(in_.classes.devices[static_cast<size_t>(c)].run)];
  }
  TaskTimes& times(TaskRef at) {
    return out_.times[static_cast<size_t>(at.device_class)][static_cast<size_t>(at.task)];
  }

  int& left(TaskRef at) {
    return left_[static_cast<size_t>(at.device_class)][static_cast<size_t>(at.task)];
  }

  void Begin() {
    size_t count = in_.classes.devices.size();
    out_.times.resize(count);
    for (size_t c = 0; c < count; ++c) {
      const TaskList& tasks = list(static_cast<int>(c));
      out_.times[c].resize(tasks.tasks.size());
      left_.push_back(tasks.predecessors);
      done_.emplace_back(tasks.tasks.size(), 0);
      // A receive also waits for its messages.
      for (size_t t = 0; t < tasks.tasks.size(); ++t) {
        const SimTask& task = tasks.tasks[t];
        if (task.kind != TaskKind::kRecv) continue;
        left_[c][t] += static_cast<int>(in_.classes.receives[c][task.transfer].size());
      }
      for (size_t t = 0; t < tasks.tasks.size(); ++t) {
        if (left_[c][t] == 0) ready_.push_back({static_cast<int>(c), static_cast<int>(t)});
      }
    }
    while (!ready_.empty()) StartReady();
  }

  double Next() {
    double at = network_.NextEnd();
    if (!events_.empty()) at = std::min(at, events_.top().time);
    return at;
  }

  void TakeDue() {
    if (network_.NextEnd() == now_) {
      network_.Advance(now_, ended_);  // their numbers may be reused from here on
      for (int flow : ended_) EndFlight(flight_of_flow_[static_cast<size_t>(flow)]);
    }
    while (!events_.empty() && events_.top().time == now_) {
      Event event = events_.top();
      events_.pop();
      if (event.flight >= 0) {
        BeginFlow(event.flight);
      } else {
        End(event.task);
      }
    }
  }

  void StartReady() {
    starting_.clear();
    std::swap(starting_, ready_);
    for (TaskRef at : starting_) Start(at);
  }

  void Start(TaskRef at) {
    const SimTask& task = list(at.device_class).tasks[static_cast<size_t>(at.task)];
    TaskTimes& when = times(at);
    when.ready = when.start = now_;
    switch (task.kind) {
      case TaskKind::kLocal:
        return EndAt(now_ + CostOf(at, task).seconds, at);
      case TaskKind::kCollective:
        return Arrive(at, task);
      case TaskKind::kSend:
        return Send(at, task);
      case TaskKind::kRecv:
        return EndAt(now_, at);
    }
  }

  const TaskCost& CostOf(TaskRef at, const SimTask& task) const {
    return in_.costs[static_cast<size_t>(at.device_class)][static_cast<size_t>(task.cost)];
  }

  void EndAt(double time, TaskRef at) {
    if (time == now_) return End(at);
    events_.push({time, -1, at});
  }

  // ---- Collectives.

  TaskRef TaskOfMember(int group, int member, TaskRef at) const {
    const GroupClass& of = in_.classes.groups[static_cast<size_t>(group)];
    int run = in_.classes.devices[static_cast<size_t>(member)].run;
    const SimTask& task = list(at.device_class).tasks[static_cast<size_t>(at.task)];
    if (task.order < 0) return {member, at.task};
    return {member, in_.channel_tasks[static_cast<size_t>(run)][static_cast<size_t>(of.channel)]
                                     [static_cast<size_t>(task.order)]};
  }

  void Arrive(TaskRef at, const SimTask& task) {
    int group =
        in_.classes
            .group_of[static_cast<size_t>(at.device_class)][static_cast<size_t>(task.channel)];
    const GroupClass& of = in_.classes.groups[static_cast<size_t>(group)];
    double latency = CostOf(at, task).latency;
    if (of.members.size() > 1) {
      TaskRef first = TaskOfMember(group, of.members[0], at);
      uint64_t key = static_cast<uint64_t>(group) << 32 | static_cast<uint64_t>(first.task);
      size_t& come = arrived_[key];
      if (++come < of.members.size()) return;
      arrived_.erase(key);
      for (int member : of.members) {
        TaskRef other = TaskOfMember(group, member, at);
        TaskTimes& when = times(other);
        when.start = now_;
        const SimTask& theirs = list(member).tasks[static_cast<size_t>(other.task)];
        // It lasts until the slowest member is done.
        latency = std::max(latency, CostOf(other, theirs).latency);
        if (!(other == at)) when.cause = times(at).cause;
      }
    }
    BeginFlight({group, -1, at, now_}, latency);
  }

  void EndGroup(const Flight& flight) {
    for (int member : in_.classes.groups[static_cast<size_t>(flight.group)].members) {
      End(TaskOfMember(flight.group, member, flight.from));
    }
  }

  // ---- Messages.

  void Send(TaskRef at, const SimTask& task) {
    const std::vector<int>& messages =
        in_.classes.sends[static_cast<size_t>(at.device_class)][task.transfer];
    if (messages.empty()) return End(at);
    // The send waits only for its messages from now on.
    left(at) = static_cast<int>(messages.size());
    for (int message : messages) {
      BeginFlight({-1, message, at, now_},
                  in_.classes.messages[static_cast<size_t>(message)].latency);
    }
  }

  void EndMessage(const Flight& flight) {
    const MessageClass& message = in_.classes.messages[static_cast<size_t>(flight.message)];
    size_t run =
        static_cast<size_t>(in_.classes.devices[static_cast<size_t>(message.receiver)].run);
    const SimTask& sent =
        list(flight.from.device_class).tasks[static_cast<size_t>(flight.from.task)];
    int64_t slot = message.transfer.value * in_.microbatches + sent.microbatch;
    TaskRef to{message.receiver, in_.receive_task[run][static_cast<size_t>(slot)]};
    HEDDLE_CHECK(to.task >= 0, "a message of transfer {} that nobody receives", message.transfer);
    Release(to, flight.from);
    if (--left(flight.from) == 0) End(flight.from);
  }

  // ---- Flights.

  void BeginFlight(const Flight& flight, double latency) {
    int index;
    if (free_.empty()) {
      index = static_cast<int>(flights_.size());
      flights_.push_back(flight);
    } else {
      index = free_.back();
      free_.pop_back();
      flights_[static_cast<size_t>(index)] = flight;
    }
    if (latency > 0) {
      events_.push({now_ + latency, index, {}});
    } else {
      BeginFlow(index);
    }
  }

  void BeginFlow(int index) {
    const Flight& flight = flights_[static_cast<size_t>(index)];
    const std::vector<ClassLoad>* loads;
    double volume;
    if (flight.group >= 0) {
      const SimTask& task =
          list(flight.from.device_class).tasks[static_cast<size_t>(flight.from.task)];
      volume = CostOf(flight.from, task).volume;
      loads = &in_.classes.groups[static_cast<size_t>(flight.group)].loads;
    } else {
      const MessageClass& message = in_.classes.messages[static_cast<size_t>(flight.message)];
      volume = message.bytes;
      loads = &message.loads;
    }
    if (volume <= 0 || loads->empty()) return EndFlight(index);
    load_.clear();
    for (const ClassLoad& load : *loads) load_.push_back({load.link, load.weight});
    size_t flow = static_cast<size_t>(network_.Start(now_, volume, load_));
    if (flow >= flight_of_flow_.size()) flight_of_flow_.resize(flow + 1, -1);
    flight_of_flow_[flow] = index;
  }

  void EndFlight(int index) {
    Flight flight = flights_[static_cast<size_t>(index)];
    free_.push_back(index);
    ++out_.events;
    if (flight.group >= 0) {
      EndGroup(flight);
    } else {
      EndMessage(flight);
    }
  }

  // ---- Ends.

  void End(TaskRef at) {
    TaskTimes& when = times(at);
    when.end = now_;
    done_[static_cast<size_t>(at.device_class)][static_cast<size_t>(at.task)] = 1;
    ++out_.events;
    if (now_ >= out_.seconds) {
      out_.seconds = now_;
      out_.last = at;
    }
    const TaskList& tasks = list(at.device_class);
    size_t t = static_cast<size_t>(at.task);
    for (int i = tasks.first_successor[t]; i < tasks.first_successor[t + 1]; ++i) {
      Release({at.device_class, tasks.successors[static_cast<size_t>(i)]}, at);
    }
  }

  void Release(TaskRef at, TaskRef by) {
    if (--left(at) > 0) return;
    times(at).cause = by;
    ready_.push_back(at);
  }

  struct Event {
    double time = 0;
    int flight = -1;  // the flight whose latency ends; -1: a task ends
    TaskRef task;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const { return a.time > b.time; }
  };

  const Prepared& in_;
  StopPoll poll_;
  FairShare network_;
  Timeline out_;
  double now_ = 0;
  // How many predecessors a task still waits for; for a send that has started, how many of its messages are in
  // progress.
  std::vector<std::vector<int>> left_;
  std::vector<std::vector<uint8_t>> done_;
  std::vector<TaskRef> ready_, starting_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::vector<Flight> flights_;
  std::vector<int> free_;
  std::vector<int> flight_of_flow_;
  std::vector<int> ended_;
  std::vector<Load> load_;
  // Number of members of a group that have reached a task.
  std::unordered_map<uint64_t, size_t> arrived_;
};

}  // namespace

Timeline Execute(const Prepared& prepared, const SimOptions& options) {
  return Engine(prepared, options).Run();
}

}  // namespace heddle
