#include "sim/simulate.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/clock.h"
#include "base/parallel.h"
#include "cluster/topology.h"
#include "program/text.h"
#include "sim/compute_stream.h"

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
    out.devices.resize(in_.classes.devices.size());
    InParallel(out.devices.size(), [&](size_t c) { out.devices[c] = Device(c); });
    for (size_t c = 0; c < out.devices.size(); ++c) {
      AddFlops(c, out);
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

  void AddFlops(size_t c, SimResult& out) const {
    const DeviceClass& of = in_.classes.devices[c];
    const std::vector<SimTask>& tasks = list(static_cast<int>(c)).tasks;
    double flops = 0, again = 0;
    for (size_t t = 0; t < tasks.size(); ++t) {
      double done = in_.costs[c][static_cast<size_t>(tasks[t].cost)].flops;
      flops += done;
      if (program_.runs[static_cast<size_t>(of.run)].instructions[t].recompute) again += done;
    }
    out.flops += flops * static_cast<double>(of.count);
    out.recomputed_flops += again * static_cast<double>(of.count);
  }

  DeviceResult Device(size_t c) const {
    const DeviceClass& of = in_.classes.devices[c];
    const std::vector<Instruction>& instructions =
        program_.runs[static_cast<size_t>(of.run)].instructions;
    DeviceResult out;
    out.device = of.device;
    out.count = of.count;
    for (size_t t = 0; t < instructions.size(); ++t) {
      const TaskTimes& when = times({static_cast<int>(c), static_cast<int>(t)});
      out.kinds.seconds[static_cast<size_t>(instructions[t].op)] += when.end - when.start;
    }
    for (const Slice& slice : ComputeStream(in_, at_, static_cast<int>(c))) {
      double& seconds = slice.kind == SliceKind::kWork      ? out.compute
                        : slice.kind == SliceKind::kExposed ? out.exposed
                                                            : out.bubble;
      seconds += slice.end - slice.start;
      if (slice.message) out.exposed_messages += slice.end - slice.start;
    }
    return out;
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
              in_.classes.sends[static_cast<size_t>(at.device_class)][here.transfer];
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

int64_t HostBytes(const Program& program, int64_t device) {
  const DeviceProgram& run = program.RunOf(device);
  int64_t bytes = 0;
  for (BufferId id : run.persistent) {
    const Buffer& buffer = run.buffers[id];
    if (buffer.kind == BufferKind::kHostOptimizer || buffer.kind == BufferKind::kHostWeights)
      bytes += BufferBytes(program, buffer, device);
  }
  return bytes;
}

// The key of memory: devices with equal work that send and receive equal amounts in each transfer hold the same.
using Moved = std::tuple<int, std::vector<std::vector<double>>>;
Moved MovedBy(const Classes& classes, size_t c) {
  std::vector<std::vector<double>> bytes;
  for (const auto* lists : {&classes.sends[c], &classes.receives[c]}) {
    for (const std::vector<int>& messages : *lists) {
      bytes.emplace_back();
      for (int message : messages) {
        bytes.back().push_back(classes.messages[static_cast<size_t>(message)].bytes);
      }
      std::sort(bytes.back().begin(), bytes.back().end());
    }
  }
  return {classes.devices[c].alike, std::move(bytes)};
}

void AddMemory(const Program& program, const Cluster& cluster, const Classes& classes,
               const MemoryHabits& habits, const ReplayedDevices& replayed, SimResult& result) {
  MemoryModel model(program, habits);
  double most = -1;
  ReplayOptions options;
  options.timeline = false;
  std::map<Moved, size_t> first;  // the first class for each key
  std::vector<size_t> alike, unlike;
  for (size_t c = 0; c < result.devices.size(); ++c) {
    auto [found, fresh] = first.try_emplace(MovedBy(classes, c), unlike.size());
    if (fresh) unlike.push_back(c);
    alike.push_back(found->second);
  }
  std::vector<MemoryTimeline> timelines(unlike.size());
  InParallel(unlike.size(), [&](size_t i) {
    int64_t device = result.devices[unlike[i]].device;
    auto known = replayed.find(device);
    timelines[i] = known != replayed.end() ? known->second : Replay(model, device, options);
  });
  for (size_t c = 0; c < result.devices.size(); ++c) {
    DeviceResult& device = result.devices[c];
    const MemoryTimeline& timeline = timelines[alike[c]];
    device.peak_memory = timeline.peak;
    device.memory = timeline.peak_kinds;
    device.host_memory = HostBytes(program, device.device);
    DeviceTypeId type = TypeOf(cluster, DeviceId{static_cast<int32_t>(device.device)});
    double share =
        static_cast<double>(timeline.peak) / static_cast<double>(cluster.type(type).memory.value);
    if (share <= most) continue;
    most = share;
    result.peak_memory_bytes = timeline.peak;
    result.worst_device = device.device;
  }
  options.allocator = true;
  auto known = replayed.find(result.worst_device);
  result.reserved_memory_bytes = known != replayed.end()
                                     ? known->second.reserved
                                     : Replay(model, result.worst_device, options).reserved;
}

}  // namespace

SimResult Summarise(const Program& program, const Prepared& prepared, const Timeline& timeline) {
  return Summary(program, prepared, timeline).Run();
}

Simulation RunSimulation(const Program& program, const Cluster& cluster, const SimOptions& options,
                         const ReplayedDevices& replayed) {
  double begin = SteadySeconds();
  Simulation out;
  out.prepared = Prepare(program, cluster, options);
  double ready = SteadySeconds();
  out.timeline = Execute(out.prepared, options);
  out.result = Summarise(program, out.prepared, out.timeline);
  ThrowIfStopped(options);
  AddMemory(program, cluster, out.prepared.classes, HabitsOf(options), replayed, out.result);
  out.result.prepare_seconds = ready - begin;
  out.result.simulate_seconds = SteadySeconds() - begin;
  return out;
}

SimResult Simulate(const Program& program, const Cluster& cluster, const SimOptions& options) {
  return RunSimulation(program, cluster, options).result;
}

}  // namespace heddle
