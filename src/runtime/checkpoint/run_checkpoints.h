// The checkpoints of one training run: where it goes on from, when it saves, and what that costs.
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
  std::string folder;              // empty: nothing is saved
  int64_t every = 0;               // steps from one to the next; 0: as Young advises
  int64_t keep = 3;                // the last so many
  double mtbf = 3 * 3600;          // seconds between failures: 16,384 H100s had one in three hours
  bool resume = false;             // from the last good one; from the start where there is none
  bool override_settings = false;  // go on although settings differ from those of the checkpoint
  bool keep_losses = false;        // checkpoints have the loss of every step so far
};

// InputError where the folder holds checkpoints and is not to be resumed from.
void RequireUsable(const CheckpointOptions& options);

class RunCheckpoints {
 public:
  // All ranks together. `run` is the manifest's. CommonInputError where it goes on from a checkpoint of another
  // experiment (checkpoint/experiment.h).
  RunCheckpoints(CheckpointOptions options, Json run, Transport& transport);
  ~RunCheckpoints();

  // What to go on from; null: from the start.
  CheckpointReader* resumed() { return reader_.get(); }
  int64_t first_step() const { return first_step_; }
  // With `keep_losses`: of all steps so far, those before the checkpoint included; NaN where one is not known.
  const std::vector<double>& losses() const { return losses_; }

  // After a step, all ranks together: saves where it is time to. `state` is asked for only then.
  using StateFn = std::function<TrainState()>;
  void AfterStep(const StepRecord& record, bool last, const StateFn& state);
  // After a step that no other follows for now: saved unless it is already.
  void Save(int64_t step, const StateFn& state);
  // The last save is done. On the first rank: why it failed; empty: it did not.
  std::string Finish();

  int64_t every() const { return every_; }         // 0: not known yet
  double interval() const { return interval_; }    // seconds, as advised; 0: was given in steps
  double save_seconds() const { return saving_; }  // that training was held up, by all saves so far
  double save_cost() const { return cost_; }  // of one save, as Young was told; 0: was not asked
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
  std::unique_ptr<FolderLock> lock_;  // of the first rank
  std::unique_ptr<CheckpointReader> reader_;
  std::unique_ptr<CheckpointWriter> writer_;
  int64_t first_step_ = 0, every_ = 0, saves_ = 0;
  int64_t saved_ = -1;  // the last step after which it was
  std::vector<double> losses_;
  double interval_ = 0, saving_ = 0, cost_ = 0;
};

}  // namespace heddle
