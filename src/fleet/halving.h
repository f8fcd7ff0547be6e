// Early stopping by successive halving: at the end of every rung the jobs with the highest losses end.
//
//   rung 0 ends after `first` steps, rung r after first x factor^r; of the jobs that reach its end the best `keep`,
//   rounded up, go on.
//
//   first 100, factor 2, keep 0.5, 8 jobs:     100 steps, 4 go on to 200, 2 to 400, 1 to its own end
//
// (Jamieson and Talwalkar, AISTATS 2016.) A job that has come to the end of a rung waits for the others that still go
// on: who ends depends on losses alone, not on the order in which jobs run. A job that ends by itself before that is no
// longer counted. A loss that is no number is the highest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle {

struct HalvingRule {
  int64_t first = 100;  // steps
  double keep = 0.5;    // of the jobs
  double factor = 2;    // how many times as many steps the next rung has
  bool operator==(const HalvingRule&) const = default;
};

enum class HalvingVerdict : uint8_t { kGoOn, kWait, kEnd };

// Of the jobs of a fleet. Not for several threads at once.
class Halving {
 public:
  // `steps`: of each job, by itself.
  Halving(const HalvingRule& rule, std::vector<int64_t> steps);

  // The step after which a job is to report next; its own last where no rung ends before that.
  int64_t NextReport(int job) const;
  // Its loss after that many steps. Steps that end no rung are passed over.
  void Report(int job, int64_t step, double loss);
  HalvingVerdict VerdictOf(int job) const { return verdicts_[static_cast<size_t>(job)]; }

 private:
  void EndRungIfAllAreThere();
  int64_t RungEnd() const;

  HalvingRule rule_;
  std::vector<int64_t> steps_;
  std::vector<HalvingVerdict> verdicts_;
  std::vector<double> losses_;  // at the end of this rung
  std::vector<bool> over_;      // ended by itself
  int rung_ = 0;
};

}  // namespace heddle
