// Starting the ranks of a run, watching them, and starting them again where they fail.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "program/attempts.h"
#include "program/program.h"

namespace heddle {

// What becomes of a run whose ranks fail.
struct SuperviseOptions {
  int64_t restarts = 0;  // times to go on from the last checkpoint
  bool elastic = false;  // then to plan again with one device less
  int64_t min_ranks = 1;
};

// A plan as ranks get it.
struct RankPlan {
  std::string text;  // of its file
  std::string words;
  std::shared_ptr<const Program> program;
  int64_t devices = 1;  // that it was made for; it may use fewer
};

// Hears a line about every failure.
using FailureListener = std::function<void(const std::string& what)>;

struct SupervisedRun {
  RankPlan plan;
  // The best plan for so many devices. Throws Infeasible.
  std::function<RankPlan(int64_t devices)> replan;
  std::string transport;
  double timeout_seconds = 0;
  double prepare_seconds = 0;  // that ranks will take to get ready
  FailureListener on_failure;
};

struct SupervisedEnd {
  int status = 0;         // to exit with: 0; 1 or 2 where the run failed
  bool finished = false;  // the last step was done. Only then there is what follows.
  std::vector<AttemptTimes> attempts = {};
  std::vector<DoneStep> steps = {}, evaluations = {};  // of all attempts
  // What the first rank of the last attempt would print with --json; empty: it was not asked to.
  std::string result = {};
};

// Runs this program's command line again, as the ranks of `run`. Throws Infeasible where too few devices are left.
SupervisedEnd Supervise(const SuperviseOptions& options, SupervisedRun run);

// The same for work that has no steps and is not begun again: a rank that fails ends it. Returns the exit status.
int LaunchRanks(int64_t ranks, double timeout_seconds, const FailureListener& on_failure);

}  // namespace heddle
