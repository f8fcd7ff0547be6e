// Tests that need a CUDA device; they are skipped elsewhere.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "runtime/accelerator.h"
#include "runtime/host_rows.h"
#include "runtime/kernels/fused.h"
#include "runtime/loss_scale.h"
#include "runtime/optimizer.h"
#include "runtime/transport/nccl.h"
#include "runtime/transport/threads.h"
#include "runtime/transport/transport_conformance.h"

namespace heddle {
namespace {

at::Device Cuda(int index = 0) { return {at::kCUDA, static_cast<c10::DeviceIndex>(index)}; }

double Apart(const at::Tensor& got, const at::Tensor& want) {
  at::Tensor exact = want.to(at::kDouble).cpu();
  return ((got.to(at::kDouble).cpu() - exact).norm() / exact.norm()).item<double>();
}

double Tolerance(at::ScalarType type) {
  return type == at::kFloat ? 1e-5 : type == at::kHalf ? 1e-3 : 8e-3;
}

TEST(LossScale, HalvesOnOverflowAndDoublesAfterTheWindow) {
  LossScale scale(at::kCPU);
  at::Tensor fine = at::zeros({}), overflow = at::ones({});
  scale.Update(overflow);
  EXPECT_EQ(scale.state().scale, 32768);
  for (int64_t s = 1; s < LossScale::kWindow; ++s) scale.Update(fine);
  EXPECT_EQ(scale.state().scale, 32768);
  EXPECT_EQ(scale.state().good_steps, LossScale::kWindow - 1);
  scale.Update(fine);
  EXPECT_EQ(scale.state().scale, 65536);
  EXPECT_EQ(scale.state().good_steps, 0);
}

TEST(CudaKernels, KeptWeightsAreTakenOutAndPutBack) {
  if (CudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (int64_t weights : {1, 1000, 100003}) {
      for (at::ScalarType places : {at::kInt, at::kLong}) {
        at::Tensor dense = at::randn({weights}, Cuda()).to(type);
        at::Tensor index = (at::rand({weights}, Cuda()) < 0.3).nonzero().reshape({-1}).to(places);
        std::optional<at::Tensor> kept = FusedCompress(dense, index);
        ASSERT_TRUE(kept.has_value());
        EXPECT_TRUE(at::equal(*kept, dense.index_select(0, index)));
        at::Tensor master = at::randn({index.numel()}, Cuda()), want = dense.clone();
        want.index_copy_(0, index.to(at::kLong), master.to(type));
        ASSERT_TRUE(FusedExpand(master, index, dense));
        EXPECT_TRUE(at::equal(dense, want));
      }
    }
  }
}

TEST(CudaKernels, RowLossesAndTheirGradients) {
  if (CudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (int64_t classes : {3, 64, 1000, 50257}) {
      at::Tensor logits = at::randn({37, classes}, Cuda()).mul_(3).to(type);
      at::Tensor labels = at::randint(classes, {37}, at::TensorOptions(at::kLong).device(Cuda()));
      labels[5] = -100;
      at::Tensor weights = at::rand({37}, Cuda());
      logits.set_requires_grad(true);
      at::Tensor losses = *FusedRowLosses(logits, labels, -100);
      at::Tensor gradient = torch::autograd::grad({losses}, {logits}, {weights})[0];
      at::Tensor exact = logits.detach().to(at::kDouble).set_requires_grad(true);
      at::Tensor want =
          at::nll_loss_nd(at::log_softmax(exact, 1), labels, {}, at::Reduction::None, -100);
      at::Tensor wanted = torch::autograd::grad({want}, {exact}, {weights.to(at::kDouble)})[0];
      EXPECT_LT(Apart(losses, want), 1e-5) << classes;
      EXPECT_LT(Apart(gradient, wanted), Tolerance(type)) << classes;
    }
  }
}

TEST(CudaKernels, AlignedProductsAndTheirGradients) {
  if (CudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  for (at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (bool rows_are_outputs : {false, true}) {
      for (int64_t outputs : {3, 1001, 50257}) {
        at::Tensor x = at::randn({4, 9, 64}, Cuda()).to(type).set_requires_grad(true);
        at::Tensor w =
            at::randn({rows_are_outputs ? outputs : 64, rows_are_outputs ? 64 : outputs}, Cuda())
                .to(type)
                .set_requires_grad(true);
        std::optional<at::Tensor> y = AlignedProduct(x, w, rows_are_outputs);
        ASSERT_TRUE(y.has_value());
        at::Tensor seed = at::randn(y->sizes(), Cuda()).to(type);
        auto got = torch::autograd::grad({*y}, {x, w}, {seed});
        at::Tensor x2 = x.detach().to(at::kDouble).set_requires_grad(true);
        at::Tensor w2 = w.detach().to(at::kDouble).set_requires_grad(true);
        at::Tensor y2 = at::matmul(x2, rows_are_outputs ? w2.t() : w2);
        auto want = torch::autograd::grad({y2}, {x2, w2}, {seed.to(at::kDouble)});
        EXPECT_LT(Apart(*y, y2), Tolerance(type)) << outputs;
        EXPECT_LT(Apart(got[0], want[0]), Tolerance(type)) << outputs;
        EXPECT_LT(Apart(got[1], want[1]), Tolerance(type)) << outputs;
      }
    }
  }
}

TEST(CudaOptimizer, UpdatesAsOnTheHost) {
  if (CudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  for (const std::string& name : OptimizerNames()) {
    Optimizer host({.name = name}), device({.name = name});
    std::vector<at::Tensor> a = {at::randn({1000})}, b = {a[0].to(Cuda())};
    for (int step = 0; step < 5; ++step) {
      at::Tensor gradient = at::randn({1000});
      double skip = step == 2 ? 1 : 0;
      if (step == 2) gradient[3] = INFINITY;
      auto factors = [&](at::Device on) {
        at::TensorOptions number = at::TensorOptions(at::kDouble).device(on);
        return UpdateFactors{at::full({}, 0.01, number), at::full({}, 0.5, number),
                             at::full({}, skip, number)};
      };
      host.Step(a, {gradient}, factors(at::kCPU));
      device.Step(b, {gradient.to(Cuda())}, factors(Cuda()));
    }
    EXPECT_LT(Apart(b[0], a[0]), 1e-6) << name;
  }
}

// Rows are fetched and evicted as in a program, two at a time on the device, while the host runs far ahead: nothing is
// fetched before its eviction is done, and no memory is reused while it is still read.
TEST(CudaCopies, RowsComeAndGoAtTheSameTime) {
  if (CudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  std::optional<c10::Stream> compute = NewStream(Cuda());
  StreamScope streamed(compute);
  HostSide host;
  host.fetches = NewStream(Cuda());
  host.evictions = NewStream(Cuda());
  constexpr int64_t kGroups = 6, kSteps = 20, kElements = int64_t{1} << 22;
  std::vector<std::unique_ptr<HostRows>> rows;
  for (int64_t g = 0; g < kGroups; ++g) {
    rows.push_back(std::make_unique<HostRows>(3, kElements, Cuda(), host));
    rows.back()->host().fill_(static_cast<double>(100 * g));
  }
  int64_t before = MemoryOf(Cuda()).reserved;
  auto at = [&](int64_t turn) { return rows[static_cast<size_t>(turn % kGroups)].get(); };
  at(0)->Fetch();
  for (int64_t turn = 0; turn < kGroups * kSteps; ++turn) {
    if (turn > 0) at(turn - 1)->Release();
    if (turn + 1 < kGroups * kSteps) at(turn + 1)->Fetch();
    at(turn)->Arrived().add_(1);
    at(turn)->Evict();
  }
  WaitFor(*host.evictions);
  for (int64_t g = 0; g < kGroups; ++g) {
    at::Tensor off = rows[static_cast<size_t>(g)]->host() - static_cast<double>(100 * g + kSteps);
    EXPECT_EQ(off.abs().max().item<double>(), 0) << g;
  }
  // The memory of two, however much the host had started.
  EXPECT_LE(MemoryOf(Cuda()).reserved - before, 2 * 3 * 4 * kElements + (int64_t{4} << 20));
}

class CudaConformance : public ::testing::TestWithParam<conformance::Body> {};

// Ranks are threads and tensors are on the device: they pass through pinned host memory.
TEST_P(CudaConformance, ThreadsThroughPinnedMemory) {
  if (CudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  RunRanks(2, [run = GetParam().run](Transport& transport) {
    conformance::TestDevice() = Cuda();
    run(transport);
  });
}

// As many ranks as there are devices; with one, NCCL does the collectives of one rank.
TEST_P(CudaConformance, Nccl) {
  if (CudaDevices() == 0 || !HasNccl()) GTEST_SKIP() << "no CUDA device or no NCCL";
  RunRanks(std::min(CudaDevices(), 8), [run = GetParam().run](Transport& host) {
    conformance::TestDevice() = Cuda(host.rank());
    std::unique_ptr<Transport> transport =
        MakeNcclTransport(host, Cuda(host.rank()), {.lone_groups = true});
    run(*transport);
  });
}

INSTANTIATE_TEST_SUITE_P(Transport, CudaConformance, ::testing::ValuesIn(conformance::kBodies),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace heddle
