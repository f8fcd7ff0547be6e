#include "runtime/loss_scale.h"

namespace heddle {

LossScale::LossScale(at::Device device)
    : scale_(at::empty({}, at::TensorOptions(at::kDouble).device(device))),
      good_steps_(at::empty({}, at::TensorOptions(at::kDouble).device(device))) {
  set_state({});
}

void LossScale::Update(const at::Tensor& overflow) {
  at::Tensor bad = overflow != 0;
  at::Tensor good = good_steps_ + 1;
  at::Tensor grows = good >= kWindow;
  scale_.copy_(at::where(bad, scale_ * 0.5, at::where(grows, scale_ * 2, scale_)));
  good_steps_.copy_(at::where(at::logical_or(bad, grows), at::zeros_like(good), good));
}

LossScale::State LossScale::state() const {
  return {scale_.item<double>(), static_cast<int64_t>(good_steps_.item<double>())};
}

void LossScale::set_state(const State& state) {
  scale_.fill_(state.scale);
  good_steps_.fill_(static_cast<double>(state.good_steps));
}

}  // namespace heddle
