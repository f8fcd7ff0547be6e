// Watches the ranks of one attempt at a run: which of them failed, where, and why.
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
    kReported,  // the rank itself reported an error
    kLauncher,  // not a rank: mpirun ended with `code`, or by signal -`code`
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
  std::string cause;  // Open MPI's own message, as one line
};

struct WatchOptions {
  bool mpirun = false;         // the child is mpirun; false: it is the only rank
  double timeout_seconds = 0;  // a rank without a sign of life for this long has failed
  double start_seconds = 0;    // added while a rank starts, unless its process is stopped
  const volatile int* interrupt = nullptr;  // the watch ends when this is not 0
  std::function<void(int64_t first_step)> on_training =
      {};  // called once, at the first instruction
};

// Watches until the child ends, a rank hangs or the watch is interrupted, then kills what is left of the child. Passes
// on what ranks write on standard error. Returns the failure; nothing where every rank finished its work.
std::optional<RankFailure> Watch(Child& child, const RankTable& table, const WatchOptions& options);

// "rank 1 was killed by signal 9 (Killed) in step 12, at instruction 45 of 310 (F seg0 mb1)". `instruction` names an
// instruction of a rank: "45 of 310 (F seg0 mb1)".
using InstructionNamer = std::function<std::string(int rank, int64_t instruction)>;
std::string Describe(const RankFailure& failure, const InstructionNamer& instruction);

}  // namespace heddle
