// Assigns several devices to each job: how many, which ones and when. This is SPASE of Saturn (arXiv 2309.01226):
// select a parallelism, allocate and schedule.
//
// The planner selects the parallelism: it finds the time of a job on 1, 2, 4, ... devices (curve.h). A job runs on
// consecutive devices whose number is a power of two and whose first index is a multiple of it. Allocation and schedule
// are solved together: the search is over allotments and an order of jobs, and each candidate is evaluated by placing
// jobs in that order where they can start first. The search starts from the two baselines (one job at a time on all
// devices; equal parts) and from the smallest allotments that could meet a deadline, for many deadlines, and is never
// worse than the best of them.
//
//   SpaseSchedule plan = SolveSpase(problem);
//   SpaseSchedule run = RunSpase(problem, {});      solves the remaining problem again as jobs end
//
// Deterministic: random moves come from a seed, and their number is fixed. 32 jobs on 64 devices take about a second.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct CurvePoint {
  int64_t devices = 1;  // a power of two
  double seconds = 0;   // of the whole job
  bool operator==(const CurvePoint&) const = default;
};

// Points in ascending order of devices; more devices take less time. There is at least one point if the job fits.
struct JobCurve {
  std::string name = {};
  std::vector<CurvePoint> points = {};
};

// The devices of a job that has begun.
struct JobPlace {
  int64_t first = -1, devices = 0;  // first < 0: not begun
  double owed = 0;                  // remaining seconds of the switch to these devices
  bool operator==(const JobPlace&) const = default;
};

struct SpaseProblem {
  std::vector<JobCurve> jobs = {};
  int64_t devices = 1;
  double switch_seconds =
      0;  // the cost of interrupting a job and continuing it on other devices or later
  std::vector<JobPlace> places = {};  // of each job; empty: none has begun
};

struct SpasePiece {
  int job = 0;
  int64_t first = 0, devices = 1;
  double begin = 0, end = 0;
  double lost = 0;  // the part of it, at its beginning, that is spent on a switch
  bool operator==(const SpasePiece&) const = default;
};

struct SpaseSchedule {
  std::vector<SpasePiece> pieces;  // sorted by begin; a job that was switched has several
  double makespan = 0;
  int64_t evaluations = 0;
  int64_t switches = 0;
};

// A lower bound on all schedules, even with free preemption. For a deadline, each job needs a smallest area of devices
// x time, where allotments may be mixed; the bound is the earliest deadline at which the sum of all areas fits.
double SpaseBound(const SpaseProblem& problem);

struct SpaseOptions {
  int64_t moves = 200'000;
  uint64_t seed = 1;
};
SpaseSchedule SolveSpase(const SpaseProblem& problem, const SpaseOptions& options = {});

// Runs jobs one after the other, each on all devices or as many as it can use.
SpaseSchedule OneAtATime(const SpaseProblem& problem);
// Runs each job on an equal part of the devices, rounded down to a power of two. Jobs start in order as parts become
// free.
SpaseSchedule EqualSplit(const SpaseProblem& problem);

struct ResolveOptions {
  SpaseOptions solve = {.moves = 4'000};
  SpaseOptions first = {};
  double threshold =
      0.01;  // fraction of the remaining time by which a new schedule must end earlier
};
// Simulates the schedule. Whenever a job ends, and a few times in between, the remaining problem is solved again. The
// new schedule is used if it ends earlier by more than the threshold, including the time of switches.
SpaseSchedule RunSpase(const SpaseProblem& problem, const ResolveOptions& options = {});

}  // namespace heddle
