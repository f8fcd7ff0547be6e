#include "runtime/ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "runtime/supervisor/rank_table.h"
#include "runtime/train.h"
#include "runtime/transport/mpi.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

// Leaves the current exception where the supervisor finds it, which prints it, and ends the process.
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

RankMode ModeOf(const LaunchInfo& launch, int64_t ranks, const std::string& transport) {
  if (launch.stray_ranks > 1 && launch.stray_ranks != ranks) {
    LogWarn(
        "{} in the environment is ignored: {} did not start this process, which runs {} rank{}; "
        "give --np {} for {}",
        launch.stray, launch.stray_launcher, ranks, ranks == 1 ? "" : "s", launch.stray_ranks,
        launch.stray_ranks);
  }
  if (launch.launcher.empty() || (launch.size == 1 && ranks == 1) ||
      (launch.size == 1 && launch.launcher == "torchrun")) {
    return ranks == 1 || transport == "threads" ? RankMode::kHere : RankMode::kLaunch;
  }
  if (launch.launcher == "torchrun") {
    ThrowInput(
        "started by torchrun, which brings no MPI: start heddle without it and with --np {}, or "
        "with mpirun or srun",
        ranks);
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
