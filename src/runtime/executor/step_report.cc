#include "runtime/executor/step_report.h"

#include <cmath>
#include <utility>

#include "base/check.h"

namespace heddle {

StepReport::StepReport(at::Device on, Options options, Stop stop)
    : options_(options), stop_(std::move(stop)) {
  if (options.scales_loss) loss_scale_.emplace(on);
  factors_.lr = at::zeros({}, at::TensorOptions(at::kDouble).device(on));
}

void StepReport::BeginStep(double lr) {
  factors_.lr.fill_(lr);
  if (!options_.spills) return;
  factors_.scale = at::ones_like(factors_.lr);
  factors_.skip = at::zeros_like(factors_.lr);
  early_squares_ = at::zeros_like(factors_.lr);
}

void StepReport::CountEarly(const at::Tensor& squares) {
  early_squares_.add_(squares);
  factors_.skip = at::isfinite(early_squares_).logical_not().to(at::kDouble);
}

void StepReport::Finish(const at::Tensor& sums) {
  at::Tensor loss = sums[0], norm = sums[1].sqrt();
  if (options_.forward_only) {
    report_ = at::stack({loss, norm, norm});
    return;
  }
  at::Tensor overflow = at::isfinite(norm).logical_not();
  at::Tensor skip = at::logical_or(at::isfinite(loss).logical_not(), overflow);
  factors_.scale = at::ones_like(loss);
  if (loss_scale_) {
    norm = norm / loss_scale_->value();
    factors_.scale = unscale_ = loss_scale_->value().reciprocal();
    if (!look_closer_) loss_scale_->Update(overflow);
  }
  if (options_.clip_norm > 0) {
    at::Tensor clipped = factors_.scale * options_.clip_norm / (norm + 1e-6);
    factors_.scale = at::where(norm > options_.clip_norm, clipped, factors_.scale);
  }
  factors_.skip = skip.to(at::kDouble);
  report_ = at::stack({loss, norm, factors_.skip});
  if (!sums.is_cpu() && !look_closer_) return;
  double number = loss.item<double>();
  if (!std::isfinite(number)) stop_(number);
}

StepRecord StepReport::Read() {
  HEDDLE_CHECK(report_.defined(), "a program without a report");
  at::Tensor read = report_.cpu();  // waits for the step
  StepRecord record;
  record.loss = read[0].item<double>();
  record.grad_norm = read[1].item<double>();
  record.skipped = read[2].item<double>() != 0;
  if (loss_scale_) record.loss_scale = loss_scale_->state().scale;
  return record;
}

}  // namespace heddle
