// Running the same function on every rank.
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
  RankSlot* slot = nullptr;  // of a rank with a supervisor
};

// Runs `body` as the rank (or ranks) of this process. An error that comes up on every rank alike is reported by the
// first alone. Where MPI has another number of ranks than `ranks`, that is said and 2 returned.
int RunRanksHere(RankMode mode, int64_t ranks, const LaunchInfo& launch, const RankOptions& options,
                 const std::function<void(Transport&)>& body);

}  // namespace heddle
