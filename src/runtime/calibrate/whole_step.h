// What a step takes over the kernels it consists of: in a step caches are cold, and memory is taken and given back; ranks
// that share a core or its caches hold each other up by more than kernels side by side show; on an accelerator the host
// brings the inputs, starts the step and reads the loss.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "cluster/profile.h"
#include "plan/model.h"
#include "plan/plan.h"
#include "program/program.h"
#include "runtime/calibrate/calibrate.h"

namespace heddle {

struct WholeSteps {
  std::map<std::string, double, std::less<>> factors;  // by element type: instructions over kernels
  double host = 0;                                     // seconds, see LoadTimes
};

// Seconds that a step of the program is predicted to take on devices of the profile.
using StepPredictor =
    std::function<double(const Program& program, const Plan& plan, const Profile& profile)>;

// Trains the models, which are small, in every type on the ranks of every shift, each by itself and all at the same time, compares
// their steps with what is predicted for them with what that shift measured, and makes its kernels take as many times as
// long (the geometric mean of the ratios; what has no type as long as the types take in the mean). `profiles`, by kind,
// have a load for every shift of theirs. The same call on every rank; what it returns is by kind and load.
std::vector<std::vector<WholeSteps>> CorrectBySteps(
    std::vector<Profile>& profiles, const Cluster& cluster, const CalibrateOptions& options,
    const std::vector<Model>& models, const StepPredictor& predict, Transport& transport);

}  // namespace heddle
