// Runs the same function on every rank.
#pragma once

#include <functional>
#include <string>

#include "runtime/transport/launch.h"
#include "runtime/transport/transport.h"

namespace heddle {

struct RankOptions {
  std::string transport = "mpi";  // mpi, nccl, threads
  double deadline_seconds = 1800;
  RankSlot* slot = nullptr;  // where this rank reports to its supervisor; null: it has none
};

// How the ranks of a run are started.
enum class RankMode : uint8_t { kHere, kLaunch, kLaunched };
// kHere: all ranks are in this process; kLaunch: mpirun has to be started; kLaunched: this process is one rank. Throws
// InputError where a launcher started another number of ranks, or a launcher without MPI started this process. Warns of
// variables of a launcher that did not start this process if they say another number of ranks.
RankMode ModeOf(const LaunchInfo& launch, int64_t ranks, const std::string& transport);

// Calls `body`. With a slot, an error of it is written there and ends the process.
void ReportTo(RankSlot* slot, const std::function<void()>& body);

// Runs `body` as the rank (or ranks) of this process and returns the exit code. An error that every rank has alike is
// printed by the first rank only. If MPI has another number of ranks than `ranks`, it prints that and returns 2.
int RunRanksHere(RankMode mode, int64_t ranks, const LaunchInfo& launch, const RankOptions& options,
                 const std::function<void(Transport&)>& body);

}  // namespace heddle
