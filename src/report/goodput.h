// Goodput: the part of a run's time that is spent on steps that count.
//
//   goodput 81.2 %: steps 13.0 s of 16.0 s; start 1.2 s, detection 0.1 s, restarts 1.7 s, repeated steps 0.4 s
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "program/attempts.h"

namespace heddle {

struct Goodput {
  double wall_seconds = 0;
  double step_seconds = 0;  // of steps that count; of a repeated step only its last time counts
  double start_seconds = 0, detection_seconds = 0, restart_seconds = 0, again_seconds = 0,
         saving_seconds = 0;
  int64_t restarts = 0;
  int64_t lost_steps = 0;  // finished, then repeated after a restart

  double fraction() const { return wall_seconds > 0 ? step_seconds / wall_seconds : 0; }
};

Goodput GoodputOf(double start, double end, const std::vector<AttemptTimes>& attempts,
                  const std::vector<DoneStep>& steps);

std::string Describe(const Goodput& goodput);
void AddGoodput(Json& json, const Goodput& goodput);

}  // namespace heddle
