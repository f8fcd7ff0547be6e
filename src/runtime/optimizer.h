// Optimizers, by PyTorch's formulas.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <string>
#include <vector>

namespace heddle {

struct OptimizerOptions {
  std::string name = "adamw";  // sgd, momentum, adam, adamw
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.9;  // of "momentum"
};

// The names `name` may have.
const std::vector<std::string>& OptimizerNames();

class Optimizer {
 public:
  // Throws InputError for unknown names and numbers out of range.
  explicit Optimizer(OptimizerOptions options);

  void set_lr(double lr) { options_.lr = lr; }
  // Updates parameters in place. The same parameters must be given each time.
  void Step(std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients);

  // What it has kept: as many steps, and moments (undefined: none) for the parameters in the order they were given.
  struct State {
    int64_t steps = 0;
    std::vector<at::Tensor> first, second;
  };
  const State& state() const { return state_; }
  // To go on from; moments for the parameters that will be given.
  void Restore(State state) { state_ = std::move(state); }

 private:
  // Some elements, at this step; moments the optimizer has none of are undefined.
  void Update(at::Tensor weights, at::Tensor gradient, at::Tensor first, at::Tensor second) const;

  OptimizerOptions options_;
  State state_;
};

}  // namespace heddle
