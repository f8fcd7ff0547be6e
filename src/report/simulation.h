// The output of `heddle simulate`: a screen of text, or one JSON object.
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
  std::optional<double> even_step_seconds;  // without the slow devices and links of --slow

  SimResult result;
  DeviceResult worst;                // the class that needs most memory
  std::string worst_type;            // its kind of device
  int64_t capacity = 0;              // bytes of such a device
  int64_t devices_too_small = 0;     // devices of all classes that need more memory than they have
  std::vector<MemorySample> memory;  // of the worst device
  std::string timetable;             // TimetableOf

  double load_seconds = 0, lower_seconds = 0;  // measured
  std::string trace;                           // the file it was written to, or empty

  // Model and hardware FLOP/s utilisation: the FLOPs of the model's matrix products, without and with recomputation,
  // over the peak of all devices in the step. As usual, attention counts in full, including the masked part.
  double mfu() const;
  double hfu() const;
  bool fits() const { return devices_too_small == 0; }
};

// Fills everything but load_seconds, lower_seconds, even_step_seconds and trace.
SimulationReport MakeReport(const Model& model, const Plan& plan, const Program& program,
                            const Simulation& simulation, const SimOptions& options);

// The terms of the critical path, longest first, each with a bar.
std::string CriticalPath(const SimResult& result);

// About 60 lines of at most 110 columns.
std::string Screen(const SimulationReport& report);
Json ToJson(const SimulationReport& report);

}  // namespace heddle
