#include <torch/csrc/autograd/autograd.h>

#include <memory>

#include "ops/moved_bytes.h"
#include "runtime/calibrate/sample.h"
#include "runtime/optimizer.h"

namespace heddle {
namespace {

using Link = at::Tensor (*)(const at::Tensor&);

at::Tensor Kernel(const at::Tensor& at) { return at.neg(); }
at::Tensor View(const at::Tensor& at) { return at.t(); }

at::Tensor Chain(at::Tensor at, Link link, int length) {
  for (int i = 0; i < length; ++i) at = link(at);
  return at;
}

at::Tensor Leaf(at::Device device) {
  return at::ones({1, 1}, at::TensorOptions(device)).set_requires_grad(true);
}

std::function<void()> BackwardOfChain(at::Device device, Link link, int length) {
  at::Tensor leaf = Leaf(device), end = Chain(leaf, link, length), seed = at::ones_like(end);
  return [=] { torch::autograd::grad({end}, {leaf}, {seed}, /*retain_graph=*/true); };
}

void AddChain(at::Device device, Link link, RawTimes::Chain RawTimes::*chain,
              std::vector<Sample>& samples) {
  constexpr int kChain = RawTimes::kChain;
  samples.push_back({"launches",
                     [=]() -> std::function<void()> {
                       at::Tensor leaf = Leaf(device);
                       return [=] { Chain(leaf, link, kChain); };
                     },
                     [=](RawTimes& times, double seconds) { (times.*chain).forward = seconds; }});
  samples.push_back({"autograd", [=] { return BackwardOfChain(device, link, 1); },
                     [=](RawTimes& times, double seconds) { (times.*chain).one = seconds; }});
  samples.push_back({"autograd", [=] { return BackwardOfChain(device, link, 1 + kChain); },
                     [=](RawTimes& times, double seconds) { (times.*chain).many = seconds; }});
}

// From the norm of the gradients to new weights. An accelerator takes gradients flat.
std::function<void()> UpdateOf(at::Device device, int64_t elements) {
  at::TensorOptions on(device);
  auto optimizer = std::make_shared<Optimizer>(OptimizerOptions{});
  std::vector<at::Tensor> weights = {at::ones({elements}, on)};
  at::Tensor gradient = at::ones({elements}, on), flat = at::empty_like(gradient);
  at::TensorOptions number = on.dtype(at::kDouble);
  UpdateFactors factors{at::full({}, 1e-3, number), at::ones({}, number), at::zeros({}, number)};
  return [=]() mutable {
    at::Tensor used = device.is_cpu() ? gradient : flat.copy_(gradient);
    used.dot(used);
    optimizer->Step(weights, {used}, factors);
  };
}

}  // namespace

void AddBasicSamples(at::Device device, bool small, std::vector<Sample>& samples) {
  AddChain(device, Kernel, &RawTimes::kernels, samples);
  AddChain(device, View, &RawTimes::views, samples);
  for (int64_t elements : {int64_t{1} << 8, int64_t{1} << 14, int64_t{1} << 17, int64_t{1} << 20,
                           int64_t{1} << 23, int64_t{1} << 26}) {
    if (elements > (small ? 1 << 17 : device.is_cpu() ? 1 << 23 : 1 << 26)) break;
    samples.push_back(
        {"copies",
         [=]() -> std::function<void()> {
           at::Tensor from = at::ones({elements}, device);
           return [=] { from.clone(); };
         },
         [=](RawTimes& times, double seconds) {
           times.load.copy.points.push_back({8 * static_cast<double>(elements), seconds});
         }});
  }
  for (int64_t rows : {64, 512, 2048, 8192}) {
    if (rows > (small ? 64 : device.is_cpu() ? 2048 : 8192)) break;
    samples.push_back(
        {"sums",
         [=]() -> std::function<void()> {
           at::Tensor from = at::ones({rows, rows}, device);
           return [=] { from.sum(0); };
         },
         [=](RawTimes& times, double seconds) {
           OpTimes& sums = times.load.kernels["f32"].ops[std::string(kBiasGradient)];
           sums.forward.points.push_back({4 * static_cast<double>(rows * rows), seconds});
         }});
  }
  for (int64_t elements :
       {int64_t{1} << 10, int64_t{1} << 16, int64_t{1} << 20, int64_t{1} << 23}) {
    if (small && elements > 1 << 16) break;
    samples.push_back(
        {"updates", [=] { return UpdateOf(device, elements); },
         [=](RawTimes& times, double seconds) {
           times.load.update.points.push_back({static_cast<double>(elements), seconds});
         }});
  }
}

}  // namespace heddle
