// What a real run of a fleet shows: a table while it runs, and a summary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "fleet/dispatch.h"

namespace heddle {

// The table goes to standard error. A terminal redraws it in place, at most five times a second; anything else gets a
// line when a job ends.
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
  std::vector<std::vector<double>> losses;  // of each job, for all of its steps
  std::vector<int> shards;                  // of each job, visits per step
  std::vector<int64_t> peak_bytes;          // of each device, measured
  int64_t memory_limit = 0;
  bool interrupted = false;
};

// A lower bound on the makespan by measured times: the larger of the longest job alone and all work over the devices.
double MeasuredBound(const FleetRun& run);

std::string Screen(const FleetScreenInput& input);
Json ToJson(const FleetScreenInput& input);

}  // namespace heddle
