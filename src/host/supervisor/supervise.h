// Starts the ranks of a run, watches them, and starts them again when they fail.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "program/attempts.h"
#include "program/program.h"

namespace heddle {

// What to do when ranks fail.
struct SuperviseOptions {
  int64_t restarts = 0;  // how often to resume from the last checkpoint
  bool elastic = false;  // afterwards, make a new plan for one device less
  int64_t min_ranks = 1;
};

// A plan as it is given to ranks.
struct RankPlan {
  std::string text;   // the contents of the plan file
  std::string words;  // a description in one line
  std::shared_ptr<const Program> program;
  int64_t devices = 1;  // that the plan was made for; it may use fewer
};

// Called with one line about every failure.
using FailureListener = std::function<void(const std::string& what)>;

struct SupervisedRun {
  RankPlan plan;
  // Makes the best plan for that many devices. Throws Infeasible.
  std::function<RankPlan(int64_t devices)> replan;
  std::string transport;
  double timeout_seconds = 0;
  double prepare_seconds = 0;  // how long ranks are expected to prepare
  FailureListener on_failure;
};

struct SupervisedEnd {
  int status = 0;         // the exit code: 0, or 1 or 2 where the run failed
  bool finished = false;  // the last step was done; only then the other fields are set
  std::vector<AttemptTimes> attempts = {};
  std::vector<DoneStep> steps = {}, evaluations = {};  // of all attempts
  // What the first rank of the last attempt would print with --json; empty without --json.
  std::string result = {};
};

// Runs the command line of this process again, as the ranks of `run`. Throws Infeasible where too few devices are left.
SupervisedEnd Supervise(const SuperviseOptions& options, SupervisedRun run);

// The same for work that has no steps and no restarts: it ends when a rank fails. Returns the exit code.
int LaunchRanks(int64_t ranks, double timeout_seconds, const FailureListener& on_failure);

}  // namespace heddle
