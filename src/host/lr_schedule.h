// The learning rate of a step: a warm-up, then a constant, a straight line or half a cosine.
//
//   lr |      ____                     step <  w   lr (step + 1) / (w + 1)
//      |     /    ''--..               step >= w   lr (f + (1 - f) s(t)),  t = (step - w) / (total - w)
//      |   /            ''-.
//      | /                  '--____    lr f        constant  s = 1
//      +------------------------------             linear    s = 1 - t
//        0    w                total               cosine    s = (1 + cos pi t) / 2
//
// These are PyTorch's LinearLR(start_factor=1/(w+1), total_iters=w) for the warm-up, then LinearLR(1, f,
// total-w) or CosineAnnealingLR(T_max=total-w, eta_min=f*lr). From `total` on the rate stays lr f.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct LrSchedule {
  std::string kind = "constant";  // constant, linear, cosine
  double lr = 1e-3;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;    // of the whole run, the warm-up included; `constant` does not use it
  double final_fraction = 0;  // at the end of linear and cosine, as a fraction of lr

  // The rate of a step, from 0. The schedule must be valid (CheckSchedule).
  double At(int64_t step) const;

  bool operator==(const LrSchedule&) const = default;
};

// The names `kind` may have.
const std::vector<std::string>& LrScheduleNames();

// Throws InputError with the value for unknown kinds, for rates and fractions out of range, and for warm-ups that do
// not end before the run does.
void CheckSchedule(const LrSchedule& schedule);

}  // namespace heddle
