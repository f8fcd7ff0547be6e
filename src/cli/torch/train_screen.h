// What `heddle train` shows: a header, a line per step in torchtitan's vocabulary, a summary.
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
  const SimOptions& prediction;  // how the simulator is to predict it
  const DataSource& data;
  const TrainOptions& train;
  const std::vector<double>& reference;  // losses to print beside ours
  MetricsOptions metrics;
  std::string device;     // what it computes on; empty: this machine's cores
  std::string trace;      // the file; empty: none
  int64_t log_every = 0;  // steps from one line to the next; 0: as suits their number
  bool json = false;
  const Membership* member = nullptr;  // of a supervisor, who then speaks at the end
  double began = 0;                    // when the command did, seconds of the steady clock
};

// Of the first rank.
class TrainScreen {
 public:
  explicit TrainScreen(const ScreenOptions& options);
  void Begin();  // prints the header
  void Step(const StepRecord& record);
  void Evaluated(const HeldOutLoss& evaluation);
  void Finish(const TrainSummary& summary);
  // After Finish: what was asked for and could not be written, with the reason; empty: nothing.
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
  std::vector<DoneStep> steps_;  // where there is no file of them
  std::optional<Progress> progress_;
  double worst_ = 0;
  int64_t unwritten_lines_ = 0;  // of metrics
  std::string unwritten_why_, unwritten_trace_;
};

}  // namespace heddle
