#include <torch/csrc/autograd/autograd.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "ops/moved_bytes.h"
#include "runtime/calibrate/sample.h"
#include "runtime/optimizer.h"

namespace heddle {
namespace {

constexpr double kMoment = 1e-3;  // seconds of calls that one time is the mean of
constexpr double kMostCalls = 500;

at::Tensor KernelChain(at::Tensor at, int kernels) {
  for (int i = 0; i < kernels; ++i) at = at.neg();
  return at;
}

std::function<void()> BackwardOfChain(at::Device device, int kernels) {
  at::Tensor leaf = at::ones({1}, device).set_requires_grad(true);
  at::Tensor end = KernelChain(leaf, kernels), seed = at::ones({1}, device);
  return [=] { torch::autograd::grad({end}, {leaf}, {seed}, /*retain_graph=*/true); };
}

}  // namespace

double SecondsNow(Clock clock) {
  timespec now{};
  clock_gettime(clock == Clock::kThread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void Synchronise(at::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize();
}

double TimeOf(const std::function<void()>& body, at::Device device, Clock clock) {
  auto time = [&](int calls) {
    double begin = SecondsNow(clock);
    for (int i = 0; i < calls; ++i) body();
    Synchronise(device);
    return (SecondsNow(clock) - begin) / calls;
  };
  body();
  Synchronise(device);
  double best = time(1);
  int calls = static_cast<int>(std::clamp(kMoment / std::max(best, 1e-9), 1.0, kMostCalls));
  int moments = best > 10 * kMoment ? 1 : 3;
  for (int i = 0; i < moments; ++i) {
    double mean = time(calls);
    best = i == 0 ? mean : std::min(best, mean);
  }
  return best;
}

void AddBasicSamples(at::Device device, bool small, std::vector<Sample>& samples) {
  constexpr int kChain = RawTimes::kChain;
  samples.push_back({"launches",
                     [=] {
                       at::Tensor leaf = at::ones({1}, device).set_requires_grad(true);
                       return [=] { KernelChain(leaf, kChain); };
                     },
                     [](RawTimes& times, double seconds) { times.chain = seconds; }});
  samples.push_back({"autograd", [=] { return BackwardOfChain(device, 1); },
                     [](RawTimes& times, double seconds) { times.one = seconds; }});
  samples.push_back({"autograd", [=] { return BackwardOfChain(device, 1 + kChain); },
                     [](RawTimes& times, double seconds) { times.many = seconds; }});
  for (int64_t elements :
       {int64_t{1} << 8, int64_t{1} << 14, int64_t{1} << 17, int64_t{1} << 20, int64_t{1} << 23}) {
    if (small && elements > 1 << 17) break;
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
  for (int64_t rows : {64, 512, 2048}) {
    if (small && rows > 64) break;
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
        {"updates",
         [=]() -> std::function<void()> {
           auto optimizer = std::make_shared<Optimizer>(OptimizerOptions{});
           std::vector<at::Tensor> weights = {at::ones({elements}, device)};
           at::Tensor gradient = at::ones({elements}, device);
           return [=]() mutable { optimizer->Step(weights, {gradient}); };
         },
         [=](RawTimes& times, double seconds) {
           times.load.update.points.push_back({static_cast<double>(elements), seconds});
         }});
  }
}

}  // namespace heddle
