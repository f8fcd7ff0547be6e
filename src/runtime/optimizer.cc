#include "runtime/optimizer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

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

// So many elements are updated at a time: the passes over weights, gradient and moments then meet in the cache.
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
  bool adam = options_.name == "adam" || options_.name == "adamw";
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (state_.first.size() <= p) {
      state_.first.push_back(options_.name == "sgd" ? at::Tensor() : at::zeros_like(parameters[p]));
      state_.second.push_back(adam ? at::zeros_like(parameters[p]) : at::Tensor());
    }
    at::Tensor gradient = gradients[p].contiguous();
    int64_t elements = parameters[p].numel();
    // A device has its own caches and would rather have few kernels.
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
