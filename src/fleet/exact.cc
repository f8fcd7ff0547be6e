#include "fleet/exact.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/check.h"

namespace heddle {
namespace {

struct PartialSchedule {
  std::vector<size_t> done;   // of each job: number of placed runs
  std::vector<double> ready;  // of each job: when its next run may start; 0 if all are placed
  std::vector<double> free;   // when each device is free, ascending
};

class ExactSolver {
 public:
  ExactSolver(const std::vector<std::vector<double>>& jobs, int devices, int64_t max_states)
      : jobs_(jobs), max_states_(max_states) {
    for (const std::vector<double>& job : jobs) {
      std::vector<double> rest(job.size() + 1, 0);
      for (size_t r = job.size(); r-- > 0;) rest[r] = rest[r + 1] + job[r];
      rest_.push_back(std::move(rest));
      for (double seconds : job) whole_ = whole_ && seconds == std::floor(seconds);
    }
    PartialSchedule root;
    root.done.assign(jobs.size(), 0);
    root.ready.assign(jobs.size(), 0);
    root.free.assign(static_cast<size_t>(devices), 0);
    best_.makespan = std::numeric_limits<double>::infinity();
    root_bound_ = Bound(root);
    Branch(root);
  }

  const ExactSchedule& best() const { return best_; }

 private:
  double Bound(const PartialSchedule& at) const {
    double bound = at.free.back(), work = 0;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      bound = std::max(bound, at.ready[j] + rest_[j][at.done[j]]);
      work += rest_[j][at.done[j]];
    }
    for (double free : at.free) work += free;
    bound = std::max(bound, work / static_cast<double>(at.free.size()));
    return whole_ ? std::ceil(bound - 1e-9) : bound;
  }

  bool AllDone(const PartialSchedule& at) const {
    for (size_t j = 0; j < jobs_.size(); ++j) {
      if (at.done[j] < jobs_[j].size()) return false;
    }
    return true;
  }

  // True if a known partial schedule has the same runs and is nowhere later. Otherwise remembers this one.
  bool Dominated(const PartialSchedule& at) {
    auto no_later = [](const PartialSchedule& a, const PartialSchedule& b) {
      for (size_t i = 0; i < a.ready.size(); ++i) {
        if (a.ready[i] > b.ready[i]) return false;
      }
      for (size_t i = 0; i < a.free.size(); ++i) {
        if (a.free[i] > b.free[i]) return false;
      }
      return true;
    };
    std::vector<PartialSchedule>& known = seen_[at.done];
    for (const PartialSchedule& other : known) {
      if (no_later(other, at)) return true;
    }
    std::erase_if(known, [&](const PartialSchedule& other) { return no_later(at, other); });
    known.push_back(at);
    return false;
  }

  double Start(const PartialSchedule& at, size_t j) const {
    return std::max(at.ready[j], at.free.front());
  }

  // Adds the next run of job j. Later runs start no earlier, so earlier times are forgotten.
  PartialSchedule Place(const PartialSchedule& at, size_t j) const {
    PartialSchedule next = at;
    double start = Start(at, j);
    next.ready[j] = next.free.front() = start + jobs_[j][at.done[j]];
    ++next.done[j];
    for (double& free : next.free) free = std::max(free, start);
    for (size_t i = 0; i < jobs_.size(); ++i) {
      bool over = next.done[i] == jobs_[i].size();
      next.ready[i] = over ? 0 : std::max(next.ready[i], start);
    }
    std::sort(next.free.begin(), next.free.end());
    return next;
  }

  void Branch(const PartialSchedule& at) {
    if (best_.makespan <= root_bound_ || !best_.proved) return;
    if (++best_.states > max_states_) {
      best_.proved = false;
      return;
    }
    if (AllDone(at)) {
      best_.makespan = std::min(best_.makespan, at.free.back());
      return;
    }
    if (Bound(at) >= best_.makespan || Dominated(at)) return;
    std::vector<size_t> order;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      if (at.done[j] < jobs_[j].size()) order.push_back(j);
    }
    // Trying the longest remaining job first gives a good schedule early.
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return rest_[a][at.done[a]] > rest_[b][at.done[b]];
    });
    // Only runs that start before any other run could end are tried: an idle gap that fits a run is never better.
    double first_end = std::numeric_limits<double>::infinity();
    for (size_t j : order) first_end = std::min(first_end, Start(at, j) + jobs_[j][at.done[j]]);
    for (size_t j : order) {
      if (Start(at, j) < first_end) Branch(Place(at, j));
    }
  }

  const std::vector<std::vector<double>>& jobs_;
  int64_t max_states_;
  std::vector<std::vector<double>> rest_;  // of each job and run: seconds of it and all later runs
  bool whole_ = true;                      // all seconds are whole numbers, so makespans are, too
  double root_bound_ = 0;
  std::map<std::vector<size_t>, std::vector<PartialSchedule>> seen_;
  ExactSchedule best_;
};

}  // namespace

ExactSchedule SolveExactly(const std::vector<std::vector<double>>& jobs, int devices,
                           int64_t max_states) {
  HEDDLE_CHECK(devices > 0);
  return ExactSolver(jobs, devices, max_states).best();
}

}  // namespace heddle
