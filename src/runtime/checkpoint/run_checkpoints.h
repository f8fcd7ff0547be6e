// The checkpoints of one training run: the one it resumes from, when it saves, and what saving costs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/reader.h"
#include "program/step_record.h"
#include "runtime/checkpoint/state.h"
#include "runtime/transport/transport.h"

namespace heddle {

struct CheckpointOptions {
  std::string folder;  // empty: nothing is saved
  int64_t every = 0;   // save after so many steps; 0: at the interval of Young's formula
  int64_t keep = 3;    // how many checkpoints to keep
  double mtbf =
      3 * 3600;  // mean time between failures in seconds: 16,384 H100s had one in three hours
  bool resume = false;  // from the last sound checkpoint; from the start where there is none
  bool override_settings = false;  // resume although settings differ from those of the checkpoint
  bool keep_losses = false;        // store the losses of all steps so far in every checkpoint
};

// Throws InputError where the folder holds checkpoints although `resume` is false.
void RequireUsable(const CheckpointOptions& options);

class RunCheckpoints {
 public:
  // Called by all ranks together. `run` becomes part of manifests. Throws CommonInputError where the checkpoint to
  // resume from is of another experiment (checkpoint/experiment.h).
  RunCheckpoints(CheckpointOptions options, Json run, Transport& transport);
  ~RunCheckpoints();

  // The checkpoint to resume from; null: training begins at the start.
  CheckpointReader* resumed() { return reader_.get(); }
  int64_t first_step() const { return first_step_; }
  // With `keep_losses`: the losses of all steps so far, also those before the checkpoint; NaN where one is unknown.
  const std::vector<double>& losses() const { return losses_; }

  // Called by all ranks together after every step. Saves when a checkpoint is due, and calls `state` only then.
  using StateFn = std::function<TrainState()>;
  void AfterStep(const StepRecord& record, bool last, const StateFn& state);
  // Called after a step when training pauses: saves unless that step is already saved.
  void Save(int64_t step, const StateFn& state);
  // Waits for the last save. Returns, on the first rank, why it failed; empty where it succeeded.
  std::string Finish();

  int64_t every() const { return every_; }  // steps between saves; 0: not known yet
  double interval() const {
    return interval_;
  }  // of Young's formula, in seconds; 0: `every` was given
  double save_seconds() const { return saving_; }  // that training was blocked by all saves so far
  double save_cost() const {
    return cost_;
  }  // of one save, as used in Young's formula; 0: not used
  int64_t saves() const { return saves_; }

 private:
  int64_t Largest(int64_t mine);
  double Slowest(double seconds);
  void RequireSameExperiment();
  void ReadLosses();
  void Save(int64_t step, const TrainState& state, bool last);
  void SaveFirst(const StepRecord& record, bool last, const TrainState& state);

  CheckpointOptions options_;
  Json run_;
  Transport& transport_;
  GroupHandle all_;
  std::unique_ptr<FolderLock> lock_;  // on the first rank only
  std::unique_ptr<CheckpointReader> reader_;
  std::unique_ptr<CheckpointWriter> writer_;
  int64_t first_step_ = 0, every_ = 0, saves_ = 0;
  int64_t saved_ = -1;  // the last step that was saved
  std::vector<double> losses_;
  double interval_ = 0, saving_ = 0, cost_ = 0;
};

}  // namespace heddle
