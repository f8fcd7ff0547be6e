// A program's step in the simulator: how long, how much memory, and why.
//
//   SimResult result = Simulate(program, cluster, options);
//   result.step_seconds, result.bubble, result.critical[Term::kProducts]
//
// Deterministic. All figures are predictions. A simulation that SimOptions::stopped ends throws SimulationStopped.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "program/trace.h"
#include "sim/engine.h"
#include "sim/memory.h"

namespace heddle {

// Seconds of a device on what: the kinds that measured steps are split into as well.
struct KindSeconds {
  std::array<double, kOpcodeCount> seconds = {};
};

struct DeviceResult {
  int64_t device = 0;  // the first of a class
  int64_t count = 0;
  double compute = 0;  // seconds at work
  double exposed = 0;  // compute waits for communication
  double bubble = 0;   // compute waits for other devices' compute
  double exposed_messages =
      0;  // of `exposed`: messages between stages; the rest is collectives and copies
  KindSeconds kinds;
  int64_t peak_memory = 0;  // bytes
  MemoryKinds memory;       // at the peak
  int64_t host_memory = 0;  // of what is offloaded
};

struct SimResult {
  double step_seconds = 0;
  double bubble = 0,
         exposed_communication = 0;  // shares of the step on the device that computes longest
  Terms critical;                    // the step along its critical path; adds up to step_seconds
  // Contractions done by all devices: what a causal mask hides is not, and fused attention does some twice.
  double flops = 0;
  double recomputed_flops = 0;        // of these, those of recomputation
  std::vector<DeviceResult> devices;  // per class
  // Of the device that needs most of what it has: what it uses, and what PyTorch's allocator has then reserved.
  int64_t worst_device = 0;
  int64_t peak_memory_bytes = 0, reserved_memory_bytes = 0;
  int64_t events = 0;
  double prepare_seconds = 0, simulate_seconds = 0;  // on the clock
};

SimResult Simulate(const Program& program, const Cluster& cluster, const SimOptions& options);

// The same, and what it was made from: for traces and timetables.
struct Simulation {
  Prepared prepared;
  Timeline timeline;
  SimResult result;
};
// Devices whose memory was replayed already, with the allocator: that need not be done again.
using ReplayedDevices = std::map<int64_t, MemoryTimeline>;
Simulation RunSimulation(const Program& program, const Cluster& cluster, const SimOptions& options,
                         const ReplayedDevices& replayed = {});

// Of a timeline; memory and the seconds on the clock are not filled in.
SimResult Summarise(const Program& program, const Prepared& prepared, const Timeline& timeline);

}  // namespace heddle
