#include "sim/simulate.h"

#include <algorithm>
#include <chrono>

namespace heddle {
namespace {

class Summary {
 public:
  Summary(const Program& program, const Prepared& prepared, const Timeline& timeline)
      : program_(program), in_(prepared), at_(timeline) {}

  SimResult Run() {
    SimResult out;
    out.step_seconds = at_.seconds;
    out.events = at_.events;
    size_t busiest = 0;
    for (size_t c = 0; c < in_.classes.devices.size(); ++c) {
      out.devices.push_back(Device(c));
      out.flops += Flops(c) * static_cast<double>(out.devices[c].count);
      if (out.devices[c].compute > out.devices[busiest].compute) busiest = c;
    }
    if (at_.seconds > 0) {
      out.bubble = out.devices[busiest].bubble / at_.seconds;
      out.exposed_communication = out.devices[busiest].exposed / at_.seconds;
    }
    Walk(out.critical);
    return out;
  }

 private:
  const TaskList& list(int c) const {
    return in_.lists[static_cast<size_t>(in_.classes.devices[static_cast<size_t>(c)].run)];
  }
  const SimTask& task(TaskRef at) const {
    return list(at.device_class).tasks[static_cast<size_t>(at.task)];
  }
  const TaskTimes& times(TaskRef at) const {
    return at_.times[static_cast<size_t>(at.device_class)][static_cast<size_t>(at.task)];
  }
  const TaskCost& cost(TaskRef at) const {
    return in_.costs[static_cast<size_t>(at.device_class)][static_cast<size_t>(task(at).cost)];
  }

  double Flops(size_t c) const {
    double flops = 0;
    for (const SimTask& at : list(static_cast<int>(c)).tasks) {
      flops += in_.costs[c][static_cast<size_t>(at.cost)].flops;
    }
    return flops;
  }

  DeviceResult Device(size_t c) const {
    const DeviceClass& of = in_.classes.devices[c];
    const std::vector<Instruction>& instructions =
        program_.runs[static_cast<size_t>(of.run)].instructions;
    DeviceResult out;
    out.device = of.device;
    out.count = of.count;
    double free = 0;  // when compute's last task ended
    for (size_t t = 0; t < instructions.size(); ++t) {
      TaskRef at{static_cast<int>(c), static_cast<int>(t)};
      const SimTask& here = task(at);
      const TaskTimes& when = times(at);
      out.kinds.seconds[static_cast<size_t>(instructions[t].op)] += when.end - when.start;
      if (!here.compute_queue) continue;
      double start = here.kind == TaskKind::kLocal ? when.start : when.ready;
      if (start > free) Wait(at, free, start, out);
      if (here.kind == TaskKind::kLocal) {
        out.compute += when.end - when.start;
      } else {  // communication that is not overlapped
        out.exposed += when.end - when.start;
        out.bubble += when.start - when.ready;
      }
      free = std::max(free, when.end);
    }
    // What follows the last of compute: weights are gathered, others are waited for.
    TaskRef last = at_.last;
    bool mine = last.device_class == static_cast<int>(c);
    (mine && task(last).kind != TaskKind::kLocal ? out.exposed : out.bubble) +=
        std::max(0.0, at_.seconds - free);
    return out;
  }

  // Compute idles from `from` to `to`, when `at` may start: what moved in that time is exposed, the rest a bubble.
  void Wait(TaskRef at, double from, double to, DeviceResult& out) const {
    double exposed = 0, until = to;
    for (TaskRef why = times(at).cause; why.task >= 0 && until > from; why = times(why).cause) {
      const SimTask& reason = task(why);
      if (reason.kind == TaskKind::kLocal) break;
      const TaskTimes& when = times(why);
      if (reason.kind == TaskKind::kRecv) continue;
      double begin = std::max(from, when.start), end = std::min(until, when.end);
      if (end > begin) exposed += end - begin;
      until = std::min(until, when.start);
    }
    out.exposed += exposed;
    out.bubble += to - from - exposed;
  }

  void Walk(Terms& terms) const {
    for (TaskRef at = at_.last; at.task >= 0; at = times(at).cause) {
      const SimTask& here = task(at);
      const TaskTimes& when = times(at);
      switch (here.kind) {
        case TaskKind::kLocal:
          terms += cost(at).terms;
          break;
        case TaskKind::kCollective: {
          int group = in_.classes.group_of[static_cast<size_t>(at.device_class)]
                                          [static_cast<size_t>(here.channel)];
          double latency = cost(at).latency;
          terms[Term::kLatency] += latency;
          AddMoved(terms, in_.classes.groups[static_cast<size_t>(group)].level,
                   when.end - when.start - latency);
          break;
        }
        case TaskKind::kSend: {
          const std::vector<int>& sent =
              in_.classes
                  .sends[static_cast<size_t>(at.device_class)][static_cast<size_t>(here.channel)];
          if (sent.empty()) break;
          const MessageClass& message = in_.classes.messages[static_cast<size_t>(sent.back())];
          terms[Term::kLatency] += message.latency;
          AddMoved(terms, message.level, when.end - when.start - message.latency);
          break;
        }
        case TaskKind::kRecv:
          break;
      }
    }
  }

  void AddMoved(Terms& terms, int level, double seconds) const {
    terms[level < in_.inner_level ? Term::kFar : Term::kNear] += std::max(0.0, seconds);
  }

  const Program& program_;
  const Prepared& in_;
  const Timeline& at_;
};

// Devices of a class hold the same at the same instructions.
void AddMemory(const Program& program, bool frees_after_b, SimResult& result) {
  MemoryModel model(program, frees_after_b);
  ReplayOptions options;
  options.timeline = false;
  for (DeviceResult& device : result.devices) {
    MemoryTimeline timeline = Replay(model, device.device, options);
    device.peak_memory = timeline.peak;
    device.memory = timeline.peak_kinds;
    if (timeline.peak <= result.peak_memory_bytes) continue;
    result.peak_memory_bytes = timeline.peak;
    result.worst_device = device.device;
  }
  options.allocator = true;
  result.reserved_memory_bytes = Replay(model, result.worst_device, options).reserved;
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

SimResult Summarise(const Program& program, const Prepared& prepared, const Timeline& timeline) {
  return Summary(program, prepared, timeline).Run();
}

SimResult Simulate(const Program& program, const Cluster& cluster, const SimOptions& options) {
  double begin = Now();
  Prepared prepared = Prepare(program, cluster, options);
  double ready = Now();
  Timeline timeline = Execute(prepared);
  SimResult result = Summarise(program, prepared, timeline);
  AddMemory(program, options.stack.frees_after_b, result);
  result.prepare_seconds = ready - begin;
  result.simulate_seconds = Now() - begin;
  return result;
}

}  // namespace heddle
