// Watching the ranks of one attempt at a run: which of them failed, where, and why.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "host/supervisor/child.h"
#include "host/supervisor/rank_table.h"

namespace heddle {

struct RankFailure {
  enum class Kind : uint8_t {
    kKilled,    // by signal `code`
    kExited,    // with exit code `code`
    kHung,      // no sign of life for `silent_seconds`
    kReported,  // it says itself why
    kLauncher,  // no rank: mpirun ended with `code`, or by signal -`code`
  };
  Kind kind = Kind::kLauncher;
  int rank = -1;
  int code = 0;
  char state = 'R';           // of the process, see ProcessState
  double silent_seconds = 0;  // since its last sign of life
  RankPhase phase = RankPhase::kAbsent;
  int64_t step = 0;
  int64_t instruction = 0;
  RankError error = RankError::kRun;
  std::string text;
  std::string cause;  // what Open MPI said itself, as one line
};

struct WatchOptions {
  bool mpirun = false;         // or the one rank itself
  double timeout_seconds = 0;  // without a sign of life
  double start_seconds = 0;    // more, while it starts; a process that is stopped has no more
  const volatile int* interrupt = nullptr;                   // ends the watch when it is not 0
  std::function<void(int64_t first_step)> on_training = {};  // once, at the first instruction
};

// Until the child ends, a rank hangs or the watch is interrupted. Whatever is left of the child is killed then. What
// the ranks write on standard error is passed on. Nothing: every rank did what it had to do.
std::optional<RankFailure> Watch(Child& child, const RankTable& table, const WatchOptions& options);

// "rank 1 was killed by signal 9 (Killed) in step 12, at instruction 45 of 310 (F seg0 mb1)". `instruction` names one
// of a rank's list: "45 of 310 (F seg0 mb1)".
using InstructionNamer = std::function<std::string(int rank, int64_t instruction)>;
std::string Describe(const RankFailure& failure, const InstructionNamer& instruction);

}  // namespace heddle
