#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "ops/op.h"
#include "runtime/calibrate/sample.h"
#include "runtime/kernels/kernel.h"

namespace heddle {
namespace {

RateTable& TableAt(RawTimes& times, DType dtype, TimeTable which) {
  return times.load.kernels[std::string(Name(dtype))].tables[static_cast<size_t>(which)];
}

void Store(RateTable& table, const RateTable& grid, size_t cell, double rate) {
  if (table.empty()) table = grid;
  table.rates[cell] = rate;
}

RateTable Grid(std::vector<double> m, std::vector<double> n, std::vector<double> k) {
  size_t cells = m.size() * n.size() * k.size();
  return {std::move(m), std::move(n), std::move(k), std::vector<double>(cells, 1)};
}

void AddProducts(at::Device device, DType dtype, bool small, std::vector<Sample>& samples) {
  std::vector<double> sizes = {1, 8, 32, 128, 512, 1536};
  if (device.is_cuda()) sizes = {1, 64, 512, 1024, 2048, 4096, 8192};
  if (small) sizes.resize(3);
  const RateTable grid = Grid(sizes, sizes, sizes);
  size_t cell = 0;
  for (double m : sizes) {
    for (double n : sizes) {
      for (double k : sizes) {
        auto make = [=]() -> std::function<void()> {
          auto options = at::TensorOptions(ToTorch(dtype)).device(device);
          auto size = [](double x) { return static_cast<int64_t>(x); };
          // Of numbers that differ: a GPU draws more power for them, and may slow down.
          at::Tensor a = at::randn({size(m), size(k)}, options);
          at::Tensor b = at::randn({size(n), size(k)}, options);
          return [=] { at::mm(a, b.t()); };
        };
        samples.push_back({"products", make, [=](RawTimes& times, double seconds) {
                             Store(TableAt(times, dtype, TimeTable::kProduct), grid, cell,
                                   2 * m * n * k / seconds);
                           }});
        ++cell;
      }
    }
  }
}

struct AttentionShape {
  int64_t heads = 1, positions = 1, width = 1;
  bool causal = false;
};

// Heads lie beside each other in memory, as the projections make them.
std::function<void()> AttentionBody(at::Device device, DType dtype, const AttentionShape& shape,
                                    bool backward) {
  auto options = at::TensorOptions(ToTorch(dtype)).device(device);
  std::vector<at::Tensor> operands;
  std::vector<TensorType> types;
  for (int o = 0; o < 3; ++o) {
    operands.push_back(at::rand({1, shape.positions, shape.heads, shape.width}, options)
                           .transpose(1, 2)
                           .detach()
                           .set_requires_grad(true));
    types.push_back({dtype, {1, shape.heads, shape.positions, shape.width}});
  }
  Attributes attributes = {{"scale", 0.125}, {"causal", int64_t{shape.causal}}};
  auto rule = std::make_shared<Rule>(MakeRule("Attention", attributes, types));
  KernelFn kernel = FindKernel("Attention");
  auto forward = [=] {
    std::vector<Block> blocks = WholeBlocks(*rule);
    return kernel({attributes, *rule, blocks, operands, {}})[0];
  };
  if (!backward) return [=] { forward(); };
  at::Tensor result = forward(), seed = at::rand_like(result);
  return [=] { torch::autograd::grad({result}, operands, {seed}, /*retain_graph=*/true); };
}

void AddAttention(at::Device device, DType dtype, bool small, std::vector<Sample>& samples) {
  std::vector<double> positions = {32, 128, 512}, widths = {16, 64, 128};
  if (device.is_cuda()) positions.push_back(2048);
  if (small) positions.resize(1), widths.resize(1);
  const RateTable grid = Grid(positions, {1}, widths);
  const int64_t scores = device.is_cuda() ? 1 << 26 : 1 << 20;  // in all heads
  size_t cell = 0;
  for (double m : positions) {
    for (double k : widths) {
      for (bool causal : {false, true}) {
        for (bool backward : {false, true}) {
          AttentionShape shape{1, static_cast<int64_t>(m), static_cast<int64_t>(k), causal};
          shape.heads = std::clamp<int64_t>(scores / (shape.positions * shape.positions), 1, 128);
          TimeTable table =
              causal ? (backward ? TimeTable::kCausalBackward : TimeTable::kCausal)
                     : (backward ? TimeTable::kAttentionBackward : TimeTable::kAttention);
          double flops = (backward ? 8 : 4) * static_cast<double>(shape.heads) * m * m * k;
          samples.push_back({"attention",
                             [=] { return AttentionBody(device, dtype, shape, backward); },
                             [=](RawTimes& times, double seconds) {
                               Store(TableAt(times, dtype, table), grid, cell, flops / seconds);
                             }});
        }
      }
      ++cell;
    }
  }
}

}  // namespace

void AddProductSamples(at::Device device, DType dtype, bool small, std::vector<Sample>& samples) {
  AddProducts(device, dtype, small, samples);
  AddAttention(device, dtype, small, samples);
}

}  // namespace heddle
