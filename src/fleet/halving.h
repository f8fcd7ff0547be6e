// Early stopping by successive halving: the jobs with the highest losses end at every rung.
//
//   rung 0 ends after `first` steps, rung r after first x factor^r; of the jobs that reach its end, the best
//   fraction `keep`, rounded up, continue.
//
//   first 100, factor 2, keep 0.5, 8 jobs:     100 steps, 4 continue to 200, 2 to 400, 1 to its last step
//
// (Jamieson and Talwalkar, AISTATS 2016.) A job at the end of a rung waits for the other running jobs, so that the
// decision depends on losses only and not on the order in which jobs run. A job that has ended before is not counted. A
// loss of NaN counts as the highest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle {

struct HalvingRule {
  int64_t first = 100;  // steps
  double keep = 0.5;    // fraction of the jobs
  double factor = 2;    // steps of the next rung / steps of this rung
  bool operator==(const HalvingRule&) const = default;
};

enum class HalvingVerdict : uint8_t { kGoOn, kWait, kEnd };

// The halving of the jobs of a fleet. Not thread-safe.
class Halving {
 public:
  // `steps`: the steps of each job without early stopping.
  Halving(const HalvingRule& rule, std::vector<int64_t> steps);

  // The step after which a job must report next: the end of its rung, or its last step if that comes first.
  int64_t NextReport(int job) const;
  // Reports the loss of a job after a step. Steps that are not the end of a rung are ignored.
  void Report(int job, int64_t step, double loss);
  HalvingVerdict VerdictOf(int job) const { return verdicts_[static_cast<size_t>(job)]; }

 private:
  void EndRungIfAllReported();
  int64_t RungEnd() const;

  HalvingRule rule_;
  std::vector<int64_t> steps_;
  std::vector<HalvingVerdict> verdicts_;
  std::vector<double> losses_;  // at the end of this rung
  std::vector<bool> over_;      // reached its last step, or failed
  int rung_ = 0;
};

}  // namespace heddle
