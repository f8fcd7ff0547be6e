#include "cost/compute.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/load.h"
#include "ops/op.h"

namespace heddle {
namespace {

DeviceType A100() { return LoadCluster("dgx-a100:1").device_types.front(); }

Precision Bf16() {
  Precision precision;
  precision.compute = DType::kBF16;
  return precision;
}

struct OneLinear {
  Graph graph;
  Rules rules;
  GradientFlow flow;

  OneLinear() {
    ValueId x = graph.AddValue("x", {DType::kBF16, {2048, 512}}, ValueKind::kInput);
    ValueId v = graph.AddValue("v", {DType::kBF16, {512, 4096}}, ValueKind::kParameter);
    ValueId w = graph.AddValue("w", {DType::kBF16, {4096, 1024}}, ValueKind::kParameter);
    ValueId h = AddOp(graph, "MatMul", {}, {x, v}, "h")[0];
    ValueId y = AddOp(graph, "MatMul", {}, {h, w}, "y")[0];
    ValueId z = AddOp(graph, "Relu", {}, {y}, "z")[0];
    graph.outputs = AddOp(graph, "ReduceSum", {{"axes", std::vector<int64_t>{0, 1}}}, {z}, "loss");
    rules = MakeRules(graph);
    flow = FindGradients(graph, rules);
  }
  NodeKernels Of(size_t n) const {
    return KernelsOf(graph, flow, graph.nodes[n], rules[n], WholeBlocks(rules[n]), DType::kF32);
  }
};

TEST(KernelTest, AProductHasThreeHalvesOfOneSize) {
  NodeKernels kernels = OneLinear().Of(1);
  ASSERT_EQ(kernels.forward.size(), 1u);
  ASSERT_EQ(kernels.backward.size(), 1u);
  ASSERT_EQ(kernels.weight.size(), 1u);
  const Kernel& f = kernels.forward[0];
  EXPECT_EQ(f.kind, KernelKind::kProduct);
  EXPECT_TRUE(f.with_parameter);
  EXPECT_EQ(f.flops, 2.0 * 2048 * 4096 * 1024);
  EXPECT_EQ(f.m, 2048);
  EXPECT_EQ(f.n, 1024);
  EXPECT_EQ(f.k, 4096);
  EXPECT_EQ(f.bytes, 2.0 * (2048 * 4096 + 4096 * 1024 + 2048 * 1024));
  EXPECT_EQ(kernels.backward[0].n, 4096);  // the gradient of x sums over n
  EXPECT_EQ(kernels.backward[0].k, 1024);
  EXPECT_EQ(kernels.weight[0].m, 4096);  // the gradient of w sums over m
  EXPECT_EQ(kernels.weight[0].k, 2048);
  // The gradient is added to one in fp32, which is read and written.
  EXPECT_EQ(kernels.weight[0].bytes, f.bytes + 2 * 4.0 * 4096 * 1024);
}

TEST(KernelTest, TheFirstProductGivesItsInputNoGradient) {
  NodeKernels kernels = OneLinear().Of(0);
  EXPECT_TRUE(kernels.backward.empty());
  EXPECT_EQ(kernels.weight.size(), 1u);
}

TEST(KernelTest, AReluMovesMemory) {
  NodeKernels kernels = OneLinear().Of(2);
  ASSERT_EQ(kernels.forward.size(), 1u);
  EXPECT_EQ(kernels.forward[0].kind, KernelKind::kTraffic);
  EXPECT_EQ(kernels.forward[0].bytes, 2 * 2.0 * 2048 * 1024);  // read and written
  // Reads a kept value and a gradient, writes a gradient.
  EXPECT_EQ(kernels.backward[0].bytes, 3 * 2.0 * 2048 * 1024);
}

TEST(ComputeTest, ALargeProductRunsAtItsShareOfThePeak) {
  DeviceConstants constants;
  constants.processors = 100;
  constants.launch = 0;
  ComputeCost cost(A100(), constants, StackCosts{}, Bf16());
  Kernel kernel{.kind = KernelKind::kProduct, .dtype = DType::kBF16};
  kernel.m = 256 * 100;  // whole waves of the largest tile
  kernel.n = 128 * 10;
  kernel.k = 1 << 20;
  kernel.flops = 2 * kernel.m * kernel.n * kernel.k;
  double ideal = kernel.flops / (A100().peak.bf16 * constants.products);
  EXPECT_NEAR(cost.Of(kernel)[Term::kProducts] / ideal, 1 + 64.0 / (1 << 20), 1e-9);
  EXPECT_NEAR(cost.Of(kernel).total(), cost.Of(kernel)[Term::kProducts], 1e-12);
}

TEST(ComputeTest, SmallProductsAreSlow) {
  auto of = [](double size) {
    Kernel kernel{.kind = KernelKind::kProduct};
    kernel.m = kernel.n = kernel.k = size;
    return Occupancy(kernel, 108);
  };
  EXPECT_LE(of(16384), 1);
  EXPECT_GT(of(16384), 0.9);
  EXPECT_LT(of(256), 0.2);
  EXPECT_LT(of(1024), of(8192));
}

TEST(ComputeTest, WhatMovesMoreThanItMultipliesIsBoundByMemory) {
  DeviceConstants constants;
  constants.launch = 1e-6;
  ComputeCost cost(A100(), constants, StackCosts{}, Bf16());
  Kernel kernel{.kind = KernelKind::kProduct, .dtype = DType::kBF16};
  kernel.m = 1, kernel.n = kernel.k = 8192;
  kernel.flops = 2.0 * 8192 * 8192;
  kernel.bytes = 1e9;  // bytes that are read
  Terms terms = cost.Of(kernel);
  EXPECT_NEAR(terms[Term::kTraffic], 1e9 / (A100().memory_bandwidth * constants.traffic), 1e-12);
  EXPECT_EQ(terms[Term::kProducts], 0);
  EXPECT_EQ(terms[Term::kLaunch], 1e-6);
}

TEST(ComputeTest, Fp8IsForProductsWithParameters) {
  DeviceType h100 = LoadCluster("dgx-h100:1").device_types.front();
  Precision precision = Bf16();
  precision.products = Products::kFp8;
  ComputeCost cost(h100, ConstantsOf(h100), StackCosts{}, precision);
  Kernel kernel{.kind = KernelKind::kProduct, .dtype = DType::kBF16};
  kernel.m = kernel.n = kernel.k = 8192;
  kernel.flops = 2.0 * 8192 * 8192 * 8192;
  EXPECT_GT(cost.Of(kernel)[Term::kProducts], 0);
  kernel.with_parameter = true;
  EXPECT_GT(cost.Of(kernel)[Term::kFp8], 0);
  EXPECT_EQ(cost.Of(kernel)[Term::kProducts], 0);
}

TEST(ComputeTest, TheUpdateOfMixedPrecisionMoves30BytesAParameter) {
  DeviceConstants constants;
  ComputeCost cost(A100(), constants, StackCosts{}, Bf16());
  double bytes = 4 + 2 * (4 + 4 + 4) + 2;
  EXPECT_NEAR(cost.Update(1e9, Bf16())[Term::kOptimizer],
              1e9 * bytes / (A100().memory_bandwidth * constants.traffic), 1e-12);
}

TEST(ComputeTest, ATypeWithoutARateIsRefused) {
  DeviceType v100 = LoadCluster("dgx-v100:1").device_types.front();
  EXPECT_THROW(ComputeCost(v100, ConstantsOf(v100), StackCosts{}, Bf16()), InputError);
  Precision fp8 = Bf16();
  fp8.products = Products::kFp8;
  EXPECT_THROW(ComputeCost(A100(), ConstantsOf(A100()), StackCosts{}, fp8), InputError);
}

// A device on which a product of any size runs at 1 GFLOP/s and attention at 2, and on which a Gelu moves 1 GB/s.
DeviceConstants Calibrated() {
  auto profile = std::make_shared<Profile>();
  LoadTimes load;
  load.launch = 1e-6;
  load.view = 3e-7;
  load.host = 4e-4;
  load.backward = 5e-6;
  load.copy = {{{1e3, 1e-6}, {1e9, 1}}};
  load.update = {{{1, 1e-8}}};
  load.transfers["all-reduce"] = {{{1e6, 1e-3}}};
  KernelTimes& kernels = load.kernels["bf16"];
  for (RateTable& table : kernels.tables) table = {{1}, {1}, {1}, {2e9}};
  kernels.tables[0].rates = {1e9};
  kernels.ops["Gelu"] = {{{{1e3, 1e-6}, {1e6, 1e-3}}}, {{{1e3, 2e-6}, {1e6, 2e-3}}}};
  kernels.ops["Mul"] = {{{{1e3, 1e-7}}}, {{{1e3, 1e-7}}}};
  profile->loads = {load};
  return WithProfile(DeviceConstants{}, profile, 8);
}

TEST(ComputeTest, WhatWasMeasuredCounts) {
  ComputeCost cost(A100(), Calibrated(), StackCosts{}, Bf16());
  ASSERT_TRUE(cost.calibrated());
  Kernel kernel{.kind = KernelKind::kProduct, .dtype = DType::kBF16};
  kernel.op = "Linear";
  kernel.flops = 1e6;
  EXPECT_NEAR(cost.Of(kernel).total(), 1e-3 + 1e-6, 1e-12);
  kernel.kind = KernelKind::kAttention;
  kernel.b = 10, kernel.m = kernel.n = 10, kernel.k = 5;
  EXPECT_NEAR(cost.Of(kernel).total(), 4 * 5000 / 2e9, 1e-12);
  kernel.backward = true;
  EXPECT_NEAR(cost.Of(kernel).total(), 8 * 5000 / 2e9, 1e-12);
  kernel.kind = KernelKind::kTraffic;
  kernel.op = "Gelu";
  kernel.moved = 1e5;
  EXPECT_NEAR(cost.Of(kernel).total(), 2e-4, 1e-12);
  kernel.op = "Never";  // takes the time of a Mul
  EXPECT_NEAR(cost.Of(kernel).total(), 1e-5, 1e-12);
  // The update itself, and the conversion of weights to bf16.
  EXPECT_NEAR(cost.Update(1000, Bf16()).total(), 1e-5 + 6e-6, 1e-12);
  EXPECT_NEAR(cost.View().total(), 3e-7, 1e-12);
  EXPECT_NEAR(cost.Report().total(), 4e-4, 1e-12);
  EXPECT_NEAR(cost.Autograd().total(), 5e-6, 1e-12);
  EXPECT_EQ(cost.Host().total(), 0);
  EXPECT_NEAR(*cost.Transfer("all-reduce", 2e6), 2e-3, 1e-12);
  EXPECT_EQ(cost.Transfer("message", 1), std::nullopt);
}

TEST(ComputeTest, WhatWasNotMeasuredInATypeIsRefused) {
  Precision precision;
  precision.compute = DType::kF32;
  EXPECT_THROW(ComputeCost(A100(), Calibrated(), StackCosts{}, precision), InputError);
}

}  // namespace
}  // namespace heddle
