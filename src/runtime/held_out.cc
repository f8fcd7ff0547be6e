#include "runtime/held_out.h"

namespace heddle {

HeldOut::HeldOut(const Program* forward, const DataSource* data, const HeldOutOptions& options,
                 int64_t steps, Executor& trained)
    : options_(options), steps_(steps) {
  if (forward == nullptr) return;
  executor_.emplace(*forward, trained,
                    [data](int64_t batch, Block rows) { return data->Rows(batch, rows); });
}

bool HeldOut::IsDue(int64_t done) const {
  return executor_ && (done % options_.every == 0 || done == steps_);
}

HeldOutLoss HeldOut::Measure(int64_t done) {
  HeldOutLoss evaluation{.step = done};
  for (int64_t batch = 0; batch < options_.batches; ++batch) {
    StepRecord record = executor_->RunStep(batch);
    evaluation.loss += record.loss;
    evaluation.seconds += record.seconds;
  }
  evaluation.loss /= static_cast<double>(options_.batches);
  return evaluation;
}

int64_t HeldOut::UndisturbedSteps() const {
  return executor_ ? (steps_ - 1) % options_.every + 1 : steps_;
}

}  // namespace heddle
