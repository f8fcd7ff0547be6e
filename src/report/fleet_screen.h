// What a fleet that runs for real shows: a table while it runs, and what it came to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "fleet/dispatch.h"

namespace heddle {

// On standard error, redrawn in place on a terminal at most five times a second; elsewhere a line when a job ends.
class FleetTable {
 public:
  FleetTable(std::vector<std::string> names, std::vector<int64_t> steps);
  ~FleetTable();
  FleetTable(const FleetTable&) = delete;
  FleetTable& operator=(const FleetTable&) = delete;

  void Update(const FleetRun& run);
  void Ended(int job, const FleetRun& run);

 private:
  void Erase();

  std::vector<std::string> names_;
  std::vector<int64_t> steps_;
  bool terminal_ = false;
  int drawn_ = 0;  // lines
  double next_ = 0;
};

struct FleetScreenInput {
  FleetRun run;
  std::vector<std::string> names;
  std::vector<int64_t> steps;
  std::vector<std::vector<double>> losses;  // per job, of all its steps
  std::vector<int> shards;                  // visits of a step
  std::vector<int64_t> peak_bytes;          // per device, measured
  int64_t memory_limit = 0;
  bool interrupted = false;
};

// No makespan is shorter by the times that were measured: the longest job alone, all work over the devices.
double MeasuredBound(const FleetRun& run);

std::string Screen(const FleetScreenInput& input);
Json ToJson(const FleetScreenInput& input);

}  // namespace heddle
