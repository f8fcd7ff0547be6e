// The simulated step of a plan with many micro-batches, found from a step with a few of them.
//
// After a pipeline has filled, every further round of micro-batches adds the same time to the step: the period. A step of
// a few rounds is simulated, the period is read off the time between the last two rounds, and the rounds that were left
// out are added:
//
//   step(all) = step(few) + (all - few) x period       (period per micro-batch)
//
// Memory is that of the short step: all micro-batches that are ever in flight together are in it. Where a schedule that
// splits backward holds more or fewer of them in the whole step, that is simulated.
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

// Whether a step of a few micro-batches holds on every device as many of them at once as the whole step does. Which of several
// timetables is shortest depends on their number where backward is split. Said of all plans whose timetables are large.
bool HoldsAsMany(const Plan& plan, int64_t few);

// A plan's program, with all its micro-batches or only a few. It owns the model that was rebatched for it.
struct ShortStep {
  Program program;
  ReplayedDevices replayed;      // of the program, where that was done
  int64_t microbatches = 0;      // in the program
  int64_t all_microbatches = 0;  // of the plan
};

// A model with other batches, in the types that plans compute in: each made once, for all plans that are lowered. Any
// number of threads may ask.
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

// The result of the whole step. Throws SimulationStopped where `sim` says so.
SimResult SimulateShort(const ShortStep& step, const SearchTask& task, RebatchedModels& models,
                        const Plan& plan, const SimOptions& sim);

}  // namespace heddle
