#include "runtime/ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "host/supervisor/rank_table.h"
#include "runtime/train.h"
#include "runtime/transport/mpi.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

// MPI and the launcher's variables say different numbers of ranks.
void RefuseSize(int size, const LaunchInfo& launch) {
  if (launch.rank != 0) return;
  std::string variable = SizeVariable(launch.launcher);
  fmt::print(stderr,
             "heddle: {}={} in the environment, but MPI has {} rank{}: start heddle with the "
             "mpirun of {}, or unset {}\n",
             variable, launch.size, size, size == 1 ? "" : "s", MpiVersion(), variable);
}

}  // namespace

int RunRanksHere(RankMode mode, int64_t ranks, const LaunchInfo& launch, const RankOptions& options,
                 const std::function<void(Transport&)>& body) {
  TransportOptions transport{.deadline_seconds = options.deadline_seconds, .slot = options.slot};
  int status = 0;
  if (mode == RankMode::kHere) {
    RunRanks(static_cast<int>(ranks), body, transport);
  } else {
    // The supervisor sees all ranks and should report first.
    if (options.slot != nullptr) transport.deadline_seconds += 2;
    int session = RunMpi(
        [&](Transport& rank) {
          if (rank.size() != ranks) {
            // The launcher does not belong to this MPI library, for which each process is alone.
            RefuseSize(rank.size(), launch);
            status = 2;
            return;
          }
          try {
            ReportTo(options.slot, [&] { body(rank); });
          } catch (const CommonRunError& error) {
            if (rank.rank() == 0) std::fprintf(stderr, "heddle: %s\n", error.what());
            status = 1;
          } catch (const CommonInputError& error) {
            if (rank.rank() == 0) std::fprintf(stderr, "heddle: %s\n", error.what());
            status = 2;
          }
          std::fflush(stdout);
          if (options.slot != nullptr) options.slot->Enter(RankPhase::kDone);
        },
        transport);
    if (session != 0) return session;
  }
  std::fflush(stdout);
  if (options.slot != nullptr) options.slot->Enter(RankPhase::kDone);
  return status;
}

}  // namespace heddle
