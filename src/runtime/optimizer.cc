#include "runtime/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace heddle {
namespace {

void CheckRange(std::string_view what, double value, double low, double high) {
  if (!(value >= low && value < high)) ThrowInput("{} {} is not in [{}, {})", what, value, low, high);
}

}  // namespace

const std::vector<std::string>& OptimizerNames() {
  static const std::vector<std::string> names = {"sgd", "momentum", "adam", "adamw"};
  return names;
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

void Optimizer::Step(std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients) {
  at::NoGradGuard no_grad;
  ++steps_;
  bool adam = options_.name == "adam" || options_.name == "adamw";
  bool decoupled = options_.name == "adamw";
  double b1 = options_.betas[0], b2 = options_.betas[1];
  double correction1 = 1 - std::pow(b1, static_cast<double>(steps_));
  double correction2 = std::sqrt(1 - std::pow(b2, static_cast<double>(steps_)));
  for (size_t p = 0; p < parameters.size(); ++p) {
    at::Tensor& weights = parameters[p];
    at::Tensor gradient = gradients[p];
    if (decoupled) {
      weights.mul_(1 - options_.lr * options_.weight_decay);
    } else if (options_.weight_decay != 0) {
      gradient = gradient.add(weights, options_.weight_decay);
    }
    if (first_.size() <= p) {
      first_.push_back(options_.name == "sgd" ? at::Tensor() : at::zeros_like(weights));
      second_.push_back(adam ? at::zeros_like(weights) : at::Tensor());
    }
    if (adam) {
      first_[p].mul_(b1).add_(gradient, 1 - b1);
      second_[p].mul_(b2).addcmul_(gradient, gradient, 1 - b2);
      at::Tensor scale = second_[p].sqrt().div_(correction2).add_(options_.eps);
      weights.addcdiv_(first_[p], scale, -options_.lr / correction1);
    } else if (options_.name == "momentum") {
      first_[p].mul_(options_.momentum).add_(gradient);
      weights.add_(first_[p], -options_.lr);
    } else {
      weights.add_(gradient, -options_.lr);
    }
  }
}

}  // namespace heddle
