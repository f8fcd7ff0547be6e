// Starting the ranks of a run, watching them, and starting them again where they fail.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "program/program.h"

namespace heddle {

struct SuperviseArgs {
  int64_t restarts = 0;
  bool elastic = false;
  int64_t min_ranks = 1;

  void Add(CLI::App& command);
  bool Given() const { return restarts > 0 || elastic; }
  // Throws InputError for what makes no sense.
  void Check(bool has_checkpoints) const;

 private:
  const CLI::Option* min_ranks_option_ = nullptr;
};

// A plan as ranks get it.
struct RankPlan {
  std::string text;  // of its file
  std::string words;
  std::shared_ptr<const Program> program;
  int64_t devices = 1;  // that it was made for; it may use fewer
};

struct SupervisedRun {
  RankPlan plan;
  // The best plan for so many devices. Throws Infeasible.
  std::function<RankPlan(int64_t devices)> replan;
  std::string transport;
  double timeout_seconds = 0;
  double began = 0;            // when the command began, seconds of the steady clock
  double prepare_seconds = 0;  // that ranks will take, too, to get ready
  bool json = false;
};

// Runs this program's command line again, as the ranks of `run`. Returns the exit status: 0, or 1 or 2 after a line on
// standard error for every failure. Throws Infeasible where too few devices are left.
int Supervise(const SuperviseArgs& args, SupervisedRun run);

// The same for work that has no steps and is not begun again: a rank that fails ends it.
int LaunchRanks(int64_t ranks, double timeout_seconds);

}  // namespace heddle
