// Simulates one step of a program: how long it takes, how much memory it needs, and why.
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

// Seconds of a device by opcode. Measured steps are split into the same kinds.
struct KindSeconds {
  std::array<double, kOpcodeCount> seconds = {};
};

struct DeviceResult {
  int64_t device = 0;  // the first device of a class
  int64_t count = 0;
  double compute = 0;  // seconds at work
  double exposed = 0;  // seconds in which compute waits for communication
  double bubble = 0;   // seconds in which compute waits for the compute of other devices
  double exposed_messages =
      // The part of `exposed` that waits for messages between stages; the rest waits for collectives and copies.
      0;
  KindSeconds kinds;
  int64_t peak_memory = 0;  // bytes
  MemoryKinds memory;       // at the peak
  int64_t host_memory = 0;  // bytes of offloaded state and weights
};

struct SimResult {
  double step_seconds = 0;
  double bubble = 0,
         exposed_communication = 0;  // fractions of the step on the device that computes longest
  // The critical path of the step by term; adds up to step_seconds.
  Terms critical;
  // FLOP of contractions on all devices. What a causal mask hides does not count, and what fused attention recomputes
  // does.
  double flops = 0;
  double recomputed_flops = 0;        // the part of `flops` that is recomputation
  std::vector<DeviceResult> devices;  // per class
  // For the device with the largest fraction of its memory in use: the bytes in use, and the bytes that PyTorch's
  // allocator reserves for them.
  int64_t worst_device = 0;
  int64_t peak_memory_bytes = 0, reserved_memory_bytes = 0;
  int64_t events = 0;
  double prepare_seconds = 0, simulate_seconds = 0;  // wall-clock seconds
};

SimResult Simulate(const Program& program, const Cluster& cluster, const SimOptions& options);

// The result with what it was computed from, for traces and timetables.
struct Simulation {
  Prepared prepared;
  Timeline timeline;
  SimResult result;
};
// Devices whose memory was replayed before, with the allocator; they are not replayed again.
using ReplayedDevices = std::map<int64_t, MemoryTimeline>;
Simulation RunSimulation(const Program& program, const Cluster& cluster, const SimOptions& options,
                         const ReplayedDevices& replayed = {});

// Summarises a timeline. Memory and wall-clock seconds are not filled in.
SimResult Summarise(const Program& program, const Prepared& prepared, const Timeline& timeline);

}  // namespace heddle
