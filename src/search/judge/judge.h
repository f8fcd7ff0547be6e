// Plans in the simulator: how long a step takes, and whether it fits.
#pragma once

#include "search/interface/proposal.h"

namespace heddle {

class RebatchedModels;

// Fits the plan to memory where the proposal says how, then simulates it. Throws SimulationStopped where the problem has
// been over for half a second (a plan that is simulated fast is judged all the same, so that a search that ends at once
// has one), or once `abandoned` is set.
struct JudgeOptions {
  const std::atomic<bool>* abandoned = nullptr;
  RebatchedModels* models = nullptr;  // of the problem's model, where many plans are judged
  std::function<void(const Proposal& proposal)> fitted = nullptr;  // called before it is simulated
};
JudgedPlan Judge(const SearchTask& task, Proposal proposal, const JudgeOptions& options = {});

// A plan that was judged by a few of its micro-batches and just fits: does the whole step fit, too? Sets `fits`, and what is
// reserved. Returns the bytes that the whole step reserves per device of the pipeline, empty where that was known before.
std::vector<double> CheckWholeStep(const SearchTask& task, JudgedPlan& judged);

// What ends a simulation of the problem's plans; it must not outlive the problem.
std::function<bool()> Impatience(const SearchTask& task);

// How much a simulation has to go through: nodes of all micro-batches that are simulated, on one device of each stage.
double SimulationSize(const SearchTask& task, const Plan& plan);
double SimulationSize(const SearchTask& task, int64_t microbatches, int64_t pp,
                      const std::string& schedule);
constexpr double kQuickWork = 150'000;  // some tenths of a second

bool Recomputes(const Plan& plan);

}  // namespace heddle
