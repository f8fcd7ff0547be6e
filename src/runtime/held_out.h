// Evaluation during a run: the loss of held-out data on the weights as they are, before the first step, every so many
// steps and after the last.
#pragma once

#include <cstdint>
#include <optional>

#include "program/program.h"
#include "runtime/data/data_source.h"
#include "runtime/executor.h"
#include "runtime/train_summary.h"

namespace heddle {

struct HeldOutOptions {
  int64_t every = 1;    // steps
  int64_t batches = 1;  // the first ones of the data, the same every time
};

class HeldOut {
 public:
  // `forward` is the forward program of the same plan (LowerForward) and outlives it, as the data and the executor
  // that trains do; null: nothing is held out. `steps` is the number of steps of the whole run.
  HeldOut(const Program* forward, const DataSource* data, const HeldOutOptions& options,
          int64_t steps, Executor& trained);

  // After so many steps.
  bool IsDue(int64_t done) const;
  // All devices call it together, between two steps.
  HeldOutLoss Measure(int64_t done);

  // How many steps at the end of the run have no evaluation between them.
  int64_t UndisturbedSteps() const;

 private:
  HeldOutOptions options_;
  int64_t steps_;
  std::optional<Executor> executor_;
};

}  // namespace heddle
