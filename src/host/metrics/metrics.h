// What is measured at every step, written as it happens.
//
// JSONL, one object per line, appended to what is there (a resumed run goes on in the same file):
//
//   {"step":3,"loss":5.1,"lr":0.001,"grad_norm":1.2,"step_seconds":0.21,"tokens_per_second":609.5,...}
//
// and TensorBoard event files (metrics/tensorboard.h) with the same numbers under train/ and speed/. What is
// not known is left out; in JSON a number that is not finite is null. Losses of held-out data have a line of their
// own, after so many steps (in TensorBoard: eval/loss):
//
//   {"step":4,"eval_loss":5.2}
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"
#include "host/metrics/tensorboard.h"

namespace heddle {

struct StepMetrics {
  int64_t step = 0;
  double loss = 0;
  double lr = 0;
  double step_seconds = 0;
  std::optional<double> grad_norm = {};
  std::optional<double> tokens_per_second = {};
  std::optional<double> tflops = {};  // of the whole run, per second
  std::optional<double> mfu = {};     // of the devices' peak, 0 to 1
  std::optional<int64_t> memory_bytes = {};
};

// One line of JSON, without the line break.
std::string ToJsonLine(const StepMetrics& metrics);

struct MetricsOptions {
  std::string jsonl = {};        // a file; empty: none
  std::string tensorboard = {};  // a folder; empty: none
};

class MetricsWriter {
 public:
  // Throws InputError where a file cannot be written, so that it is known before training begins.
  explicit MetricsWriter(const MetricsOptions& options);

  // All of it is in the files when this returns. Throws RunError when writing fails.
  void Write(const StepMetrics& metrics);
  void WriteEvaluation(int64_t steps_done, double loss);

 private:
  std::optional<AppendFile> jsonl_;
  std::optional<TensorBoardWriter> tensorboard_;
};

}  // namespace heddle
