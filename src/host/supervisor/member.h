// A rank's side of its supervisor.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "host/supervisor/launch.h"
#include "host/supervisor/rank_table.h"

namespace heddle {

// The supervisor's folder, by this name in the environment of ranks, and what lies in it.
inline constexpr const char* kSupervisorVariable = "HEDDLE_SUPERVISOR";
inline constexpr const char* kTableFile = "ranks";
inline constexpr const char* kPlanFile = "plan.json";  // what is to be run
inline constexpr const char* kStepsFile = "steps";     // what the first rank has done, as DoneStep
inline constexpr const char* kEvaluationsFile = "evaluations";  // likewise, of what is held out
inline constexpr const char* kResultFile = "result.json";       // what it would print with --json

struct Membership {
  std::string folder;
  RankTable table;
  RankSlot* slot = nullptr;  // of this process's first rank

  std::string operator/(const char* file) const { return folder + "/" + file; }
};

// Nothing where this process has no supervisor. From here on it dies when whoever started it dies. Throws InputError
// for a folder that is none, RunError where the supervisor is gone.
std::optional<Membership> JoinSupervisor(const LaunchInfo& launch);

// Runs `body`. With a slot, an exception of `body` is stored there for the supervisor to report, and ends the process;
// without one it is thrown on.
void ReportTo(RankSlot* slot, const std::function<void()>& body);

}  // namespace heddle
