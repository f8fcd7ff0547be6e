// The end of a step: its loss and gradient norm over all devices, and what updates follow from them: the scale of
// gradients (loss scale and clipping) and whether the step is skipped.
//
//   report.BeginStep(lr);
//   report.Finish(sums);          // sums over all devices of the loss and of the squares of gradients
//   store.Update(reduced, report.factors());
//   StepRecord record = report.Read();
//
// Everything stays on the device until Read, which waits for the step; on the CPU, where the host holds the numbers
// anyway, Finish looks at the loss and calls `stop` where it is not finite.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <optional>

#include "program/step_record.h"
#include "runtime/loss_scale.h"
#include "runtime/optimizer.h"

namespace heddle {

class StepReport {
 public:
  struct Options {
    bool forward_only = false;  // no gradients: only the loss is reported, finite or not
    bool spills = false;        // groups that are spilled are updated before the report
    bool scales_loss = false;   // gradients are f16
    double clip_norm = 0;       // 0: gradients as they are
  };
  // Does not return: throws with the reason.
  using Stop = std::function<void(double loss)>;

  StepReport(at::Device on, Options options, Stop stop);

  void BeginStep(double lr);

  // Before the report: the squared norm of a group that is updated now. Once one has gradients that are not finite, it
  // and those after it are not updated in this step.
  void CountEarly(const at::Tensor& squares);
  // What `squares` lacks of groups that were updated early; undefined: nothing.
  const at::Tensor& early_squares() const { return early_squares_; }

  void Finish(const at::Tensor& sums);

  const UpdateFactors& factors() const { return factors_; }
  // The step is run again to find out what is not finite: its loss scale stays, and Finish looks at the loss.
  void LookCloser() { look_closer_ = true; }
  // Waits for the step. Fills loss, norm, loss scale and whether the update was skipped.
  StepRecord Read();

  LossScale* loss_scale() { return loss_scale_ ? &*loss_scale_ : nullptr; }
  // What gradients are multiplied by, without clipping; undefined without a loss scale.
  const at::Tensor& unscale() const { return unscale_; }

 private:
  Options options_;
  Stop stop_;
  std::optional<LossScale> loss_scale_;
  UpdateFactors factors_;
  at::Tensor unscale_;
  at::Tensor early_squares_;  // f64
  at::Tensor report_;         // f64: loss, norm, whether the update was skipped
  bool look_closer_ = false;
};

}  // namespace heddle
