// The simulated step of a plan with many micro-batches, extrapolated from a step with a few of
// them.
//
// After the pipeline has filled, every further round of micro-batches adds the same time to the
// step: the period. A step of a few rounds is simulated, the period is the time between its last
// two rounds, and the missing rounds are added:
//
//   step(all) = step(few) + (all - few) x period       (period per micro-batch)
//
// Memory is that of the short step, which contains all micro-batches that are ever in flight
// together. Where a schedule with a split backward holds a different number of them in the whole
// step, the whole step is simulated.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "search/interface/proposal.h"

namespace heddle {

// The number of micro-batches to simulate: all of them where the step is quick to simulate.
int64_t SimulatedMicrobatches(const SearchTask& task, const Plan& plan);
int64_t SimulatedMicrobatches(const SearchTask& task, int64_t microbatches, int64_t pp,
                              const std::string& schedule);

// Does a step of a few micro-batches hold as many of them at once on every device as the whole
// step? With a split backward the shortest of several timetables depends on the number of
// micro-batches. Always true for large timetables, which are not compared.
bool HoldsAsMany(const Plan& plan, int64_t few);

// A plan's program with all or a few of its micro-batches. It owns the model that was rebatched for
// it.
struct ShortStep {
  Program program;
  ReplayedDevices replayed;      // of the program, if it was replayed
  int64_t microbatches = 0;      // in the program
  int64_t all_microbatches = 0;  // of the plan
};

// The model with other batches and in the types that plans compute in. Each is made once and shared
// by all lowered plans. Thread-safe.
class RebatchedModels {
 public:
  // The model must outlive it.
  explicit RebatchedModels(const Model& model) : model_(model) {}

  // Null where the batch of the model cannot change.
  std::shared_ptr<const Model> Of(int64_t batch, DType compute);

 private:
  struct Made {
    std::once_flag once;
    std::shared_ptr<const Model> model;
  };

  const Model& model_;
  std::mutex mutex_;
  std::map<std::pair<int64_t, DType>, Made> made_;
};

ShortStep LowerShort(const SearchTask& task, RebatchedModels& models, const Plan& plan);

// The result for the whole step. Throws SimulationStopped where `sim` says so.
SimResult SimulateShort(const ShortStep& step, const SearchTask& task, RebatchedModels& models,
                        const Plan& plan, const SimOptions& sim);

}  // namespace heddle
