#include "host/lr_schedule.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace heddle {

double LrSchedule::At(int64_t step) const {
  if (step < warmup_steps) {
    return lr * static_cast<double>(step + 1) / static_cast<double>(warmup_steps + 1);
  }
  if (kind == "constant") return lr;
  double length = static_cast<double>(std::max<int64_t>(total_steps - warmup_steps, 1));
  double t = std::min(1.0, static_cast<double>(step - warmup_steps) / length);
  double share = kind == "linear" ? 1 - t : (1 + std::cos(M_PI * t)) / 2;
  return lr * (final_fraction + (1 - final_fraction) * share);
}

const std::vector<std::string>& LrScheduleNames() {
  static const std::vector<std::string> names = {"constant", "linear", "cosine"};
  return names;
}

void CheckSchedule(const LrSchedule& schedule) {
  const auto& names = LrScheduleNames();
  if (std::find(names.begin(), names.end(), schedule.kind) == names.end()) {
    ThrowInput("learning-rate schedule '{}' is unknown; use {}", schedule.kind,
               fmt::join(names, ", "));
  }
  if (!(schedule.lr >= 0 && schedule.lr < 1e6)) {
    ThrowInput("lr {} is not in [0, 1e6)", schedule.lr);
  }
  if (!(schedule.final_fraction >= 0 && schedule.final_fraction <= 1)) {
    ThrowInput("the final fraction of the learning rate is {}, not in [0, 1]",
               schedule.final_fraction);
  }
  if (schedule.warmup_steps < 0 || schedule.warmup_steps >= int64_t{1} << 53) {
    ThrowInput("{} steps of warm-up; give 0 or more", schedule.warmup_steps);
  }
  if (schedule.kind == "constant") return;
  if (schedule.total_steps <= 0) {
    ThrowInput("a {} schedule over {} steps; give 1 or more", schedule.kind, schedule.total_steps);
  }
  if (schedule.warmup_steps >= schedule.total_steps) {
    ThrowInput("{} steps of warm-up do not end before the {} steps of the run; use fewer",
               schedule.warmup_steps, schedule.total_steps);
  }
}

}  // namespace heddle
