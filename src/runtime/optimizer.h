// Optimizers, with PyTorch's formulas.
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
  double momentum = 0.9;  // of the optimizer "momentum"
};

// The values that OptimizerOptions::name may have.
const std::vector<std::string>& OptimizerNames();
// How many moments an optimizer keeps per parameter: 0 to 2.
int MomentsOf(const std::string& optimizer);

// What an update depends on besides gradients and a step may compute on its device: f64 tensors of one number, on the
// device of the parameters.
struct UpdateFactors {
  at::Tensor lr;
  at::Tensor scale;  // a factor of the gradients
  at::Tensor skip;   // not 0: parameters and moments stay as they are
};

class Optimizer {
 public:
  // Throws InputError for unknown names and numbers out of range.
  explicit Optimizer(OptimizerOptions options);

  // Updates parameters in place. The same parameters must be given each time.
  void Step(std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients);
  // The same with the factors. Where parameters are not on the CPU the host waits for nothing. Gradients may be
  // overwritten.
  void Step(std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
            const UpdateFactors& factors);

  // The number of steps so far, and moments for the parameters in the order in which they were given; undefined: none.
  struct State {
    int64_t steps = 0;
    std::vector<at::Tensor> first, second;
  };
  State state() const;  // waits for the device of the parameters
  int moments() const { return MomentsOf(options_.name); }
  const std::vector<at::Tensor>& first() const { return state_.first; }
  const std::vector<at::Tensor>& second() const { return state_.second; }
  // Replaces the tensors of the moments by others with the same numbers: in another place, or divided in another way.
  void UseMoments(std::vector<at::Tensor> first, std::vector<at::Tensor> second);
  // Continues from a state, with moments for the parameters that Step will get.
  void Restore(State state);

 private:
  void MakeMoments(const std::vector<at::Tensor>& parameters);
  void StepOnDevice(std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
                    const UpdateFactors& factors);
  // Updates some elements at this step. Moments that the optimizer does not have are undefined.
  void Update(at::Tensor weights, at::Tensor gradient, at::Tensor first, at::Tensor second) const;

  OptimizerOptions options_;
  State state_;
  at::Tensor
      device_steps_;  // f32, where the parameters are on another device: state_.steps does not go on
};

}  // namespace heddle
