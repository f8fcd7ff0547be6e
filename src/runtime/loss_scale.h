// The loss scale: with f16 gradients the loss is multiplied by it, so that small gradients do not become zero. A step
// whose gradients overflow is skipped and halves the scale; kWindow steps in a row without overflow double it
// (Micikevicius et al. 2018).
//
//   LossScale scale(device);
//   loss * scale.value() -> gradients, divided by scale.value() before the update
//   scale.Update(overflow);
#pragma once

#include <ATen/ATen.h>

namespace heddle {

class LossScale {
 public:
  struct State {
    double scale = 65536;
    int64_t good_steps = 0;  // since it last changed
  };
  static constexpr int64_t kWindow = 200;  // good steps that double it

  explicit LossScale(at::Device device);

  // An f64 tensor of one number on the device. This object keeps the same tensor and changes its number. All state is
  // on the device: the host waits for nothing.
  const at::Tensor& value() const { return scale_; }
  // `overflow` is a tensor on the device, not 0 where a gradient of the step was not finite.
  void Update(const at::Tensor& overflow);

  // For checkpoints. Both wait for the device.
  State state() const;
  void set_state(const State& state);

 private:
  at::Tensor scale_, good_steps_;
};

}  // namespace heddle
