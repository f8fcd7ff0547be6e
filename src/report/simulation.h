// What `heddle simulate` says of a plan: one screen for people, one JSON object for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "report/step_size.h"
#include "sim/memory_over_time.h"
#include "sim/simulate.h"

namespace heddle {

struct SimulationReport {
  std::string model, cluster;
  int64_t cluster_devices = 0;
  std::string plan;  // DescribePlan
  int64_t batch = 0;
  StepSize size;
  std::string stack;
  std::vector<Slow> slow;
  std::optional<double> even_step_seconds;  // with nothing slow

  SimResult result;
  DeviceResult worst;                // the class that needs most memory
  std::string worst_type;            // its kind of device
  int64_t capacity = 0;              // bytes of such a device
  int64_t devices_too_small = 0;     // that need more than they have, of any class
  std::vector<MemorySample> memory;  // of the worst device
  std::string timetable;             // TimetableOf

  double load_seconds = 0, lower_seconds = 0;  // on the clock
  std::string trace;                           // the file it was written to, or empty

  // Model and hardware FLOP/s utilisation: the model's matrix products, without and with those recomputed, over what
  // all devices could do in the step. As usual, attention counts whole, with what its mask hides.
  double mfu() const;
  double hfu() const;
  bool fits() const { return devices_too_small == 0; }
};

// Everything but the seconds on the clock, even_step_seconds and trace.
SimulationReport MakeReport(const Model& model, const Plan& plan, const Program& program,
                            const Simulation& simulation, const SimOptions& options);

// The terms of the critical path, longest first, a line and a bar each.
std::string CriticalPath(const SimResult& result);

// About 60 lines of at most 110 columns.
std::string Screen(const SimulationReport& report);
Json ToJson(const SimulationReport& report);

}  // namespace heddle
