// Runs the same function on every rank.
#pragma once

#include <functional>
#include <string>

#include "host/supervisor/launch.h"
#include "host/supervisor/member.h"
#include "runtime/transport/transport.h"

namespace heddle {

struct RankOptions {
  std::string transport = "mpi";  // mpi, nccl, threads
  double deadline_seconds = 1800;
  RankSlot* slot = nullptr;  // where this rank reports to its supervisor; null: it has none
};

// Runs `body` as the rank (or ranks) of this process and returns the exit code. An error that every rank has alike is
// printed by the first rank only. If MPI has another number of ranks than `ranks`, it prints that and returns 2.
int RunRanksHere(RankMode mode, int64_t ranks, const LaunchInfo& launch, const RankOptions& options,
                 const std::function<void(Transport&)>& body);

}  // namespace heddle
