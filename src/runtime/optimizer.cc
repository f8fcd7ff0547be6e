#include "runtime/optimizer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/torch_compat.h"

namespace heddle {
namespace {

void CheckRange(std::string_view what, double value, double low, double high) {
  if (!(value >= low && value < high))
    ThrowInput("{} {} is not in [{}, {})", what, value, low, high);
}

}  // namespace

const std::vector<std::string>& OptimizerNames() {
  static const std::vector<std::string> names = {"sgd", "momentum", "adam", "adamw"};
  return names;
}

int MomentsOf(const std::string& optimizer) {
  if (optimizer == "sgd") return 0;
  return optimizer == "momentum" ? 1 : 2;
}

Optimizer::Optimizer(OptimizerOptions options) : options_(std::move(options)) {
  const auto& names = OptimizerNames();
  if (std::find(names.begin(), names.end(), options_.name) == names.end()) {
    ThrowInput("optimizer '{}' is unknown; use sgd, momentum, adam or adamw", options_.name);
  }
  CheckRange("lr", options_.lr, 0, 1e6);
  CheckRange("beta", options_.betas[0], 0, 1);
  CheckRange("beta", options_.betas[1], 0, 1);
  CheckRange("eps", options_.eps, 0, 1);
  CheckRange("weight decay", options_.weight_decay, 0, 1e6);
  CheckRange("momentum", options_.momentum, 0, 1);
}

namespace {

// Elements per piece: the passes over weights, gradient and moments of a piece find them in the cache.
constexpr int64_t kCached = 1 << 15;

at::Tensor Piece(const at::Tensor& tensor, int64_t begin, int64_t size) {
  if (!tensor.defined()) return {};
  return tensor.view({-1}).narrow(0, begin, size);
}

}  // namespace

void Optimizer::Step(std::vector<at::Tensor>& parameters,
                     const std::vector<at::Tensor>& gradients) {
  at::NoGradGuard no_grad;
  ++state_.steps;
  MakeMoments(parameters);
  for (size_t p = 0; p < parameters.size(); ++p) {
    at::Tensor gradient = gradients[p].contiguous();
    int64_t elements = parameters[p].numel();
    // On a device few large kernels are faster.
    int64_t step = parameters[p].is_cuda() ? std::max<int64_t>(1, elements) : kCached;
    if (!parameters[p].is_contiguous()) {
      Update(parameters[p], gradient, state_.first[p], state_.second[p]);
      continue;
    }
    int64_t pieces = (elements + step - 1) / step;
    at::parallel_for(0, pieces, 1, [&](int64_t first, int64_t last) {
      for (int64_t piece = first; piece < last; ++piece) {
        int64_t begin = piece * step, size = std::min(step, elements - begin);
        at::Tensor weights = Piece(parameters[p].detach(), begin, size);
        Update(weights, Piece(gradient, begin, size), Piece(state_.first[p], begin, size),
               Piece(state_.second[p], begin, size));
      }
    });
  }
}

Optimizer::State Optimizer::state() const {
  State state = state_;
  if (device_steps_.defined()) state.steps = std::llround(device_steps_.item<double>());
  return state;
}

void Optimizer::Restore(State state) {
  state_ = std::move(state);
  device_steps_.reset();
}

void Optimizer::UseMoments(std::vector<at::Tensor> first, std::vector<at::Tensor> second) {
  state_.first = std::move(first);
  state_.second = std::move(second);
}

void Optimizer::MakeMoments(const std::vector<at::Tensor>& parameters) {
  for (size_t p = state_.first.size(); p < parameters.size(); ++p) {
    state_.first.push_back(moments() >= 1 ? at::zeros_like(parameters[p]) : at::Tensor());
    state_.second.push_back(moments() == 2 ? at::zeros_like(parameters[p]) : at::Tensor());
  }
}

void Optimizer::Step(std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
                     const UpdateFactors& factors) {
  if (parameters.empty()) return;
  if (!parameters.front().is_cpu()) return StepOnDevice(parameters, gradients, factors);
  if (factors.skip.item<double>() != 0) return;
  at::NoGradGuard no_grad;
  options_.lr = factors.lr.item<double>();
  double scale = factors.scale.item<double>();
  if (scale == 1) return Step(parameters, gradients);
  std::vector<at::Tensor> scaled;
  for (const at::Tensor& gradient : gradients) scaled.push_back(gradient * scale);
  Step(parameters, scaled);
}

// Skipped steps do not count. A gradient that is not finite must not reach the weights, not even multiplied by 0.
void Optimizer::StepOnDevice(std::vector<at::Tensor>& parameters,
                             const std::vector<at::Tensor>& gradients,
                             const UpdateFactors& factors) {
  at::NoGradGuard no_grad;
  MakeMoments(parameters);
  at::Tensor lr = factors.lr.to(at::kFloat), scale = factors.scale.to(at::kFloat);
  at::Tensor skip = factors.skip.to(at::kFloat);
  if (!device_steps_.defined()) {
    device_steps_ = at::full({}, static_cast<double>(state_.steps), lr.options());
  }
  device_steps_.add_(1 - skip);
  if (parameters.front().numel() == 0)
    return;  // a device whose chunk is empty has this parameter only
  if (state_.second.front().defined()) {
    return FusedAdam({.parameters = parameters,
                      .gradients = gradients,
                      .first = state_.first,
                      .second = state_.second,
                      .step = device_steps_,
                      .lr = lr,
                      .beta1 = options_.betas[0],
                      .beta2 = options_.betas[1],
                      .weight_decay = options_.weight_decay,
                      .eps = options_.eps,
                      .decoupled = options_.name == "adamw",
                      .inverse_scale = scale.reciprocal(),
                      .skip = skip});
  }
  at::Tensor skips = skip != 0;
  for (size_t p = 0; p < parameters.size(); ++p) {
    at::Tensor change = gradients[p] * scale;
    if (options_.weight_decay != 0) change = change.add(parameters[p], options_.weight_decay);
    change = at::where(skips, at::zeros({}, change.options()), change);
    if (state_.first[p].defined()) {
      state_.first[p].copy_(
          at::where(skips, state_.first[p], state_.first[p] * options_.momentum + change));
      change = at::where(skips, change, state_.first[p]);
    }
    parameters[p].sub_(change * lr);
  }
}

void Optimizer::Update(at::Tensor weights, at::Tensor gradient, at::Tensor first,
                       at::Tensor second) const {
  double b1 = options_.betas[0], b2 = options_.betas[1];
  if (options_.name == "adamw") {
    weights.mul_(1 - options_.lr * options_.weight_decay);
  } else if (options_.weight_decay != 0) {
    gradient = gradient.add(weights, options_.weight_decay);
  }
  if (second.defined()) {
    double correction1 = 1 - std::pow(b1, static_cast<double>(state_.steps));
    double correction2 = std::sqrt(1 - std::pow(b2, static_cast<double>(state_.steps)));
    first.mul_(b1).add_(gradient, 1 - b1);
    second.mul_(b2).addcmul_(gradient, gradient, 1 - b2);
    at::Tensor scale = second.sqrt().div_(correction2).add_(options_.eps);
    weights.addcdiv_(first, scale, -options_.lr / correction1);
  } else if (first.defined()) {
    first.mul_(options_.momentum).add_(gradient);
    weights.add_(first, -options_.lr);
  } else {
    weights.add_(gradient, -options_.lr);
  }
}

}  // namespace heddle
