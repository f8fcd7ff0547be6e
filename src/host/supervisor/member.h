// The supervisor as a rank sees it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "host/supervisor/launch.h"
#include "host/supervisor/rank_table.h"

namespace heddle {

// The variable that names the supervisor's folder in the environment of ranks, and the files in that folder.
inline constexpr const char* kSupervisorVariable = "HEDDLE_SUPERVISOR";
inline constexpr const char* kTableFile = "ranks";     // the RankTable
inline constexpr const char* kPlanFile = "plan.json";  // the plan to run
inline constexpr const char* kStepsFile = "steps";     // steps the first rank has done, as DoneStep
inline constexpr const char* kEvaluationsFile =
    "evaluations";  // evaluations on held-out data, likewise
inline constexpr const char* kResultFile =
    "result.json";  // what the first rank would print with --json

struct Membership {
  std::string folder;
  RankTable table;
  RankSlot* slot = nullptr;  // of this process's first rank

  std::string operator/(const char* file) const { return folder + "/" + file; }
};

// Nothing where this process has no supervisor. From this call on, the kernel kills this process when its parent ends.
// Throws InputError where the folder is not a supervisor's, RunError where the supervisor is gone.
std::optional<Membership> JoinSupervisor(const LaunchInfo& launch);

// Runs `body`. With a slot, an exception of `body` is stored there for the supervisor to report, and ends the process;
// without one it is thrown on.
void ReportTo(RankSlot* slot, const std::function<void()>& body);

}  // namespace heddle
