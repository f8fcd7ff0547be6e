#include "cli/torch/ranks.h"

#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "runtime/supervisor/rank_table.h"
#include "runtime/train.h"
#include "runtime/transport/mpi.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

// Left where the supervisor finds it: it alone speaks.
[[noreturn]] void FailSupervised(RankSlot& slot) {
  int code = 1;
  try {
    throw;
  } catch (const InputError& error) {
    slot.Fail(RankError::kInput, error.what());
    code = 2;
  } catch (const CommonRunError& error) {
    slot.Fail(RankError::kCommon, error.what());
  } catch (const std::exception& error) {
    slot.Fail(RankError::kRun, error.what());
  } catch (...) {
    slot.Fail(RankError::kRun, "an exception of unknown type");
  }
  std::fflush(stdout);
  _exit(code);  // mpirun ends the other ranks
}

}  // namespace

RankMode ModeOf(const LaunchInfo& launch, int64_t ranks, const std::string& transport) {
  if (launch.launcher.empty() || (launch.size == 1 && ranks == 1)) {
    return ranks == 1 || transport == "threads" ? RankMode::kHere : RankMode::kLaunch;
  }
  if (launch.launcher == "torchrun") {
    ThrowInput(
        "started by torchrun, which brings no MPI: start {} ranks with mpirun or srun, or give "
        "--np {}",
        ranks, ranks);
  }
  if (launch.size != ranks) {
    ThrowInput("the plan is for {} ranks, but {} started {}: give that many, or another plan",
               ranks, launch.launcher, launch.size);
  }
  if (transport == "threads") {
    ThrowInput("--transport threads under {}: leave one of them out", launch.launcher);
  }
  return RankMode::kLaunched;
}

void ReportTo(RankSlot* slot, const std::function<void()>& body) {
  if (slot == nullptr) return body();
  try {
    body();
  } catch (...) {
    FailSupervised(*slot);
  }
}

int RunRanksHere(RankMode mode, int64_t ranks, const RankOptions& options,
                 const std::function<void(Transport&)>& body) {
  TransportOptions transport{.deadline_seconds = options.deadline_seconds, .slot = options.slot};
  int status = 0;
  if (mode == RankMode::kHere) {
    RunRanks(static_cast<int>(ranks), body, transport);
  } else {
    // The supervisor, who sees all ranks, is to be the first to speak.
    if (options.slot != nullptr) transport.deadline_seconds += 2;
    int session = RunMpi(
        [&](Transport& rank) {
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
