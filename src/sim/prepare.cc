#include <algorithm>

#include "base/error.h"
#include "base/parallel.h"
#include "cluster/topology.h"
#include "sim/engine.h"

namespace heddle {
namespace {

std::vector<ComputeCost> ComputeCosts(const Program& program, const Cluster& cluster,
                                      const Classes& classes, const SimOptions& options) {
  std::vector<ComputeCost> costs;
  for (const DeviceClass& at : classes.devices) {
    const DeviceType& type = cluster.type(TypeOf(cluster, DeviceId{static_cast<int>(at.device)}));
    costs.emplace_back(type, ConstantsFor(type, options, program.device_count()), options.stack,
                       program.precision, at.slow);
  }
  return costs;
}

void CheckProfiles(const SimOptions& options, const Cluster& cluster) {
  for (const std::shared_ptr<const Profile>& profile : options.profiles) {
    bool there = std::any_of(cluster.device_types.begin(), cluster.device_types.end(),
                             [&](const DeviceType& type) { return type.name == profile->device; });
    if (there) continue;
    ThrowInput("the profile describes device '{}', but the plan's cluster has '{}'",
               profile->device, cluster.device_types.front().name);
  }
}

void CheckSlow(const SimOptions& options, int64_t devices) {
  for (const Slow& slow : options.slow) {
    if (slow.device >= devices) {
      ThrowInput("--slow names {} {}, but the plan has devices 0 to {}",
                 slow.link ? "the link of device" : "device", slow.device, devices - 1);
    }
  }
}

void FindReceives(const Program& program, Prepared& out) {
  for (const DeviceProgram& run : program.runs) {
    std::vector<int> receive(program.transfers.size() * static_cast<size_t>(program.microbatches),
                             -1);
    for (size_t i = 0; i < run.instructions.size(); ++i) {
      const Instruction& at = run.instructions[i];
      if (at.op != Opcode::kRecv) continue;
      receive[static_cast<size_t>(at.transfer().value * program.microbatches + at.microbatch)] =
          static_cast<int>(i);
    }
    out.receive_task.push_back(std::move(receive));
  }
}

// The n-th task of one run on a shared channel is the same collective as the n-th of the others.
void FindShared(const Fabric& fabric, Prepared& out) {
  std::vector<int> runs(fabric.channels.size(), 0), last(fabric.channels.size(), -1);
  for (size_t r = 0; r < fabric.channel_of.size(); ++r) {
    for (int channel : fabric.channel_of[r]) {
      if (channel < 0 || last[static_cast<size_t>(channel)] == static_cast<int>(r)) continue;
      last[static_cast<size_t>(channel)] = static_cast<int>(r);
      ++runs[static_cast<size_t>(channel)];
    }
  }
  for (size_t r = 0; r < fabric.channel_of.size(); ++r) {
    std::vector<std::vector<int>> tasks(fabric.channels.size());
    for (size_t i = 0; i < fabric.channel_of[r].size(); ++i) {
      int channel = fabric.channel_of[r][i];
      if (channel < 0 || runs[static_cast<size_t>(channel)] < 2) continue;
      std::vector<int>& of = tasks[static_cast<size_t>(channel)];
      out.lists[r].tasks[i].order = static_cast<int>(of.size());
      of.push_back(static_cast<int>(i));
    }
    out.channel_tasks.push_back(std::move(tasks));
  }
}

// Messages inside a calibrated machine take the measured time, independent of other traffic.
void UseMeasured(const std::vector<ComputeCost>& compute, Prepared& out) {
  for (MessageClass& message : out.classes.messages) {
    if (message.loads.empty() || message.level < out.inner_level) continue;
    std::optional<double> seconds =
        compute[static_cast<size_t>(message.sender)].Transfer("message", message.bytes);
    if (!seconds) continue;
    message.latency = *seconds;
    message.loads.clear();
  }
}

}  // namespace

Prepared Prepare(const Program& program, const Cluster& cluster, const SimOptions& options) {
  CheckSlow(options, program.device_count());
  CheckProfiles(options, cluster);
  std::vector<SlowDevice> slow;
  for (const Slow& at : options.slow) {
    if (at.link) slow.push_back({DeviceId{static_cast<int>(at.device)}, at.factor});
  }
  Network network(cluster, LinkEfficiency(cluster, options), slow);
  Fabric fabric = FindFabric(program, network, options);
  Prepared out;
  out.microbatches = program.microbatches;
  for (const GroupSpan& span : GroupsOf(cluster, DeviceId{0})) {
    if (IsInside(cluster.group(span.group).kind)) break;
    ++out.inner_level;
  }
  out.classes = FindClasses(program, cluster, network, fabric, options);
  out.lists.resize(program.runs.size());
  InParallel(program.runs.size(), [&](size_t r) {
    TaskList list = MakeTaskList(program.runs[r], fabric.channel_of[r], options.stack);
    for (size_t t = 0; t < list.tasks.size(); ++t) {
      SimTask& task = list.tasks[t];
      if (task.kind == TaskKind::kSend || task.kind == TaskKind::kRecv) {
        task.transfer = program.runs[r].instructions[t].transfer();
      }
    }
    out.lists[r] = std::move(list);
  });
  FindReceives(program, out);
  FindShared(fabric, out);
  std::vector<ComputeCost> compute = ComputeCosts(program, cluster, out.classes, options);
  UseMeasured(compute, out);
  out.costs.resize(out.classes.devices.size());
  // Devices whose own work equals that of others are processed after these.
  std::vector<size_t> own, like;
  for (size_t c = 0; c < out.costs.size(); ++c) {
    (static_cast<size_t>(out.classes.devices[c].alike) < c ? like : own).push_back(c);
  }
  for (const std::vector<size_t>& some : {own, like}) {
    ThrowIfStopped(options);
    InParallel(some.size(), [&](size_t i) {
      size_t c = some[i];
      size_t run = static_cast<size_t>(out.classes.devices[c].run);
      auto alike = static_cast<size_t>(out.classes.devices[c].alike);
      const std::vector<TaskCost>* known = alike < c ? &out.costs[alike] : nullptr;
      out.costs[c] = FindCosts(program, program.runs[run], out.lists[run], out.classes,
                               static_cast<int>(c), compute[c], out.inner_level, known);
    });
  }
  return out;
}

}  // namespace heddle
