// The instruction list of a run of devices, made from its stages and its row of the timetable.
#pragma once

#include "program/runs.h"
#include "program/stage_builder.h"

namespace heddle {

DeviceProgram Emit(const Program& program, const StageBuilds& builds, const Plan& plan,
                   const Run& run, const std::vector<Task>& tasks);

// Fills in `frees` and `waits`.
void FindLifetimes(DeviceProgram& run);
// Then: what is fetched frees what was evicted, and waits for that; `ahead`: fetches come before they are needed.
void HandOver(const Program& program, bool ahead, DeviceProgram& run);

}  // namespace heddle
