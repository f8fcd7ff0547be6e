// The output of `heddle train`: a header, a line per step in torchtitan's terms, a summary.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "cli/torch/prediction.h"
#include "host/metrics/metrics.h"
#include "host/supervisor/member.h"
#include "plan/plan.h"
#include "program/step_record.h"
#include "report/goodput.h"
#include "report/step_size.h"
#include "runtime/train.h"

namespace heddle {

struct ScreenOptions {
  const Model& model;
  const Plan& plan;
  const Program& program;
  const SimOptions& prediction;  // the options of the simulator for the prediction
  const DataSource& data;
  const TrainOptions& train;
  const std::vector<double>& reference;  // losses to print beside those of the run
  MetricsOptions metrics;
  std::string device;     // name of the device; empty: the cores of this machine
  std::string trace;      // file; empty: none
  int64_t log_every = 0;  // steps between lines; 0: chosen by the number of steps
  bool json = false;
  const Membership* member = nullptr;  // if there is a supervisor, which then prints the result
  double began = 0;                    // start of the command, in seconds of the steady clock
};

// Only rank 0 has one.
class TrainScreen {
 public:
  explicit TrainScreen(const ScreenOptions& options);
  void Begin();  // prints the header
  void Step(const StepRecord& record);
  void Evaluated(const HeldOutLoss& evaluation);
  void Finish(const TrainSummary& summary);
  // After Finish: the requested output that could not be written, with the reason. Empty if there is none.
  std::string missing() const;

 private:
  void Log(const std::function<void()>& write);
  void Count(const DoneStep& step);
  Goodput GoodputSoFar(const TrainSummary& summary) const;
  void Give(Json json, const TrainSummary& summary) const;

  ScreenOptions options_;
  StepSize size_;
  StepPrediction prediction_;
  MetricsWriter writer_;
  std::optional<AppendFile> steps_file_, evaluations_file_;
  std::vector<DoneStep> steps_;  // unless they are written to a file
  std::optional<Progress> progress_;
  double worst_ = 0;
  int64_t unwritten_lines_ = 0;  // lines of metrics that could not be written
  std::string unwritten_why_, unwritten_trace_;
};

}  // namespace heddle
