// Running the same function on every rank.
#pragma once

#include <functional>
#include <string>

#include "runtime/transport/launch.h"
#include "runtime/transport/transport.h"

namespace heddle {

struct RankOptions {
  std::string transport = "mpi";  // mpi, nccl, threads
  double deadline_seconds = 1800;
  RankSlot* slot = nullptr;  // of a rank with a supervisor
};

// Who runs the ranks of this process.
enum class RankMode : uint8_t { kHere, kLaunch, kLaunched };
// kHere: all in this process; kLaunch: mpirun is to be started; kLaunched: this process is one of them. Throws
// InputError where a launcher started another number of ranks, or one that does not speak MPI. Warns of variables of a
// launcher that did not start this process where they name another number of ranks.
RankMode ModeOf(const LaunchInfo& launch, int64_t ranks, const std::string& transport);

// Where `slot` is given an error of `body` is left there and ends the process.
void ReportTo(RankSlot* slot, const std::function<void()>& body);

// Runs `body` as the rank (or ranks) of this process. An error that comes up on every rank alike is reported by the
// first alone. Where MPI has another number of ranks than `ranks`, that is said and 2 returned.
int RunRanksHere(RankMode mode, int64_t ranks, const LaunchInfo& launch, const RankOptions& options,
                 const std::function<void(Transport&)>& body);

}  // namespace heddle
