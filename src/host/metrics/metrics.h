// Writes the measurements of every step while training runs.
//
// JSONL: one object per line, appended to the file (a resumed run continues the same file):
//
//   {"step":3,"loss":5.1,"lr":0.001,"grad_norm":1.2,"step_seconds":0.21,"tokens_per_second":609.5,...}
//
// TensorBoard event files (tensorboard.h): the same numbers under train/ and speed/. Unknown values are left out; in
// JSON a number that is not finite is null. The loss on held-out data after so many steps has a separate line (in
// TensorBoard: eval/loss):
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
  std::optional<double> tflops = {};  // TFLOP/s of all devices together
  std::optional<double> mfu = {};  // model FLOPs utilization: fraction of the devices' peak, 0 to 1
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
  // Opens the files. Throws InputError where one cannot be written, so that the user knows before training begins.
  explicit MetricsWriter(const MetricsOptions& options);

  // The data is in the files when these return. They throw RunError when writing fails.
  void Write(const StepMetrics& metrics);
  void WriteEvaluation(int64_t steps_done, double loss);

 private:
  std::optional<AppendFile> jsonl_;
  std::optional<TensorBoardWriter> tensorboard_;
};

}  // namespace heddle
