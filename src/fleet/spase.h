// Several devices per job: which job gets how many, where, and when (SPASE of Saturn, arXiv 2309.01226: select a
// parallelism, allocate, schedule).
//
// The planner says what a job takes on 1, 2, 4, ... devices (curve.h): selecting the parallelism is its part. A job runs
// on a run of devices whose number is a power of two, and which begins at a multiple of it. Allocation and schedule are
// one problem here: allotments and an order are searched together, each judged by placing jobs in that order where they
// can start first. The search begins with the two plain ways (one job at a time on all devices; equal parts) and with
// the least allotments that could meet a deadline, for many deadlines, and is never worse than the best of them.
//
//   SpaseSchedule plan = SolveSpase(problem);
//   SpaseSchedule run = RunSpase(problem, {});      with what is left solved anew as jobs end
//
// Deterministic: random moves by a seed, counted and not timed. 32 jobs on 64 devices take about a second.
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

// Points by devices, ascending; more devices take less time. At least one, or the job fits in no way.
struct JobCurve {
  std::string name = {};
  std::vector<CurvePoint> points = {};
};

// Where a job is: what it has begun on, if it has.
struct JobPlace {
  int64_t first = -1, devices = 0;  // first < 0: nowhere
  double owed = 0;                  // seconds of a switch to it that are still to come
  bool operator==(const JobPlace&) const = default;
};

struct SpaseProblem {
  std::vector<JobCurve> jobs = {};
  int64_t devices = 1;
  double switch_seconds =
      0;  // to stop a job that has begun and go on elsewhere, later, or on more or fewer devices
  std::vector<JobPlace> places = {};  // per job; empty: none has begun
};

struct SpasePiece {
  int job = 0;
  int64_t first = 0, devices = 1;
  double begin = 0, end = 0;
  double lost = 0;  // of it, at its beginning: to switch
  bool operator==(const SpasePiece&) const = default;
};

struct SpaseSchedule {
  std::vector<SpasePiece> pieces;  // by begin; a job that was switched has several
  double makespan = 0;
  int64_t evaluations = 0;
  int64_t switches = 0;
};

// No schedule is shorter, not even one that divides jobs in time at will and pays nothing for it: for a deadline every
// job needs a least area of devices x time, mixing allotments; the shortest deadline at which all areas fit.
double SpaseBound(const SpaseProblem& problem);

struct SpaseOptions {
  int64_t moves = 200'000;
  uint64_t seed = 1;
};
SpaseSchedule SolveSpase(const SpaseProblem& problem, const SpaseOptions& options = {});

// Each job on all devices (or as many as it can use), one after the other.
SpaseSchedule OneAtATime(const SpaseProblem& problem);
// Each job on an equal part of the devices, rounded down to a power of two, in their order as parts come free.
SpaseSchedule EqualSplit(const SpaseProblem& problem);

struct ResolveOptions {
  SpaseOptions solve = {.moves = 4'000};
  SpaseOptions first = {};
  double threshold = 0.01;  // of what is left: it must end that much earlier to be switched to
};
// The schedule as it goes: whenever a job ends, and in between a few times, what is left is solved anew, and taken
// where it ends sooner by more than the threshold, switches paid.
SpaseSchedule RunSpase(const SpaseProblem& problem, const ResolveOptions& options = {});

}  // namespace heddle
