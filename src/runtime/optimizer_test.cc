// Three steps of every optimizer on one number, by the formulas of PyTorch's documentation in double precision.
#include "runtime/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace heddle {
namespace {

constexpr double kLr = 0.1, kB1 = 0.8, kB2 = 0.9, kEps = 1e-3, kDecay = 0.05, kMomentum = 0.7;
const std::vector<double> kGradients = {0.5, -1.25, 2.0};

double Expected(const std::string& name) {
  double w = 1.5, m = 0, v = 0;
  for (size_t t = 1; t <= kGradients.size(); ++t) {
    double g = kGradients[t - 1];
    if (name == "adamw") {
      w -= kLr * kDecay * w;
    } else {
      g += kDecay * w;
    }
    if (name == "sgd") {
      w -= kLr * g;
    } else if (name == "momentum") {
      m = kMomentum * m + g;
      w -= kLr * m;
    } else {
      m = kB1 * m + (1 - kB1) * g;
      v = kB2 * v + (1 - kB2) * g * g;
      double m_hat = m / (1 - std::pow(kB1, t)), v_hat = v / (1 - std::pow(kB2, t));
      w -= kLr * m_hat / (std::sqrt(v_hat) + kEps);
    }
  }
  return w;
}

TEST(Optimizer, FollowsItsFormula) {
  for (const std::string& name : OptimizerNames()) {
    Optimizer optimizer({.name = name,
                         .lr = kLr,
                         .betas = {kB1, kB2},
                         .eps = kEps,
                         .weight_decay = kDecay,
                         .momentum = kMomentum});
    std::vector<at::Tensor> weights = {at::full({1}, 1.5, at::kDouble)};
    for (double g : kGradients) optimizer.Step(weights, {at::full({1}, g, at::kDouble)});
    EXPECT_NEAR(weights[0].item<double>(), Expected(name), 1e-12) << name;
  }
}

TEST(Optimizer, RefusesWhatMakesNoSense) {
  auto with = [](auto change) {
    OptimizerOptions options;
    change(options);
    return options;
  };
  EXPECT_THROW(Optimizer(with([](auto& o) { o.name = "adagrad"; })), InputError);
  EXPECT_THROW(Optimizer(with([](auto& o) { o.lr = -1; })), InputError);
  EXPECT_THROW(Optimizer(with([](auto& o) { o.lr = NAN; })), InputError);
  EXPECT_THROW(Optimizer(with([](auto& o) { o.betas[1] = 1; })), InputError);
  EXPECT_THROW(Optimizer(with([](auto& o) { o.weight_decay = -0.1; })), InputError);
}

}  // namespace
}  // namespace heddle
