#include "host/supervisor/member.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "host/supervisor/child.h"

namespace heddle {
namespace {

bool IsAncestor(pid_t ancestor, pid_t of) {
  for (pid_t at = of; at > 1; at = ParentOf(at)) {
    if (at == ancestor) return true;
  }
  return false;
}

// Stores the current exception where the supervisor finds it. The process itself prints nothing.
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

std::optional<Membership> JoinSupervisor(const LaunchInfo& launch) {
  const char* folder = std::getenv(kSupervisorVariable);
  if (folder == nullptr) return std::nullopt;
  Membership member{folder, RankTable::Open(std::string(folder) + "/" + kTableFile)};
  const RankTable::Header& header = member.table.header();
  bool launched = launch.launcher == "mpirun";
  if (launch.rank >= header.ranks || (launched && launch.size != header.ranks)) {
    ThrowInput("{}: for {} ranks, not for rank {} of {}; unset {}", folder, header.ranks,
               launch.rank, launch.size, kSupervisorVariable);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Where mpirun has died, the supervisor has become the parent of its ranks.
  auto supervisor = static_cast<pid_t>(header.supervisor);
  pid_t parent = getppid();
  bool orphan = launched ? parent == supervisor : parent != supervisor;
  if (orphan || !IsAncestor(supervisor, parent))
    ThrowRun("the supervisor of this rank is gone; unset {}", kSupervisorVariable);
  member.slot = &member.table.slot(launch.rank);
  member.slot->pid.store(getpid());
  member.slot->Enter(RankPhase::kStarting);
  return member;
}

void ReportTo(RankSlot* slot, const std::function<void()>& body) {
  if (slot == nullptr) return body();
  try {
    body();
  } catch (...) {
    FailSupervised(*slot);
  }
}

}  // namespace heddle
