// Compressing dense gradients to kept elements, and expanding kept weights to dense ones, compared with plain libtorch
// calls, on the CPU and on a CUDA device if there is one. Rounds alternate; times are medians.
//
//   build/bench/packing [million weights] [rounds]
#include "runtime/packing.h"

#include <fmt/format.h>

#include "alternate.h"
#include "runtime/accelerator.h"

namespace heddle {
namespace {

struct Implementation {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};
};

void Compare(const char* what, double bytes, at::Device on, int rounds, Implementation ours,
             Implementation libtorch) {
  for (int round = -2; round < rounds; ++round) {
    for (Implementation* implementation : {&ours, &libtorch}) {
      double begin = SteadySeconds();
      implementation->run();
      if (!on.is_cpu())
        at::zeros({1}, at::TensorOptions().device(on)).item<float>();  // waits for the device
      if (round >= 0) implementation->seconds.push_back(SteadySeconds() - begin);
    }
  }
  double own = bench::Median(ours.seconds), theirs = bench::Median(libtorch.seconds);
  fmt::print("  {:<24} {:>9} ({:>6.0f} GB/s)   libtorch {:>9}   {:.2f} x as fast\n", what,
             FormatSeconds(Seconds{own}), bytes / own / 1e9, FormatSeconds(Seconds{theirs}),
             theirs / own);
}

void Measure(at::Device on, int64_t weights, int rounds) {
  for (double sparsity : {0.5, 0.9}) {
    at::Tensor index = (at::rand({weights}, at::TensorOptions().device(on)) >= sparsity)
                           .nonzero()
                           .reshape({-1})
                           .to(at::kInt);
    double kept = static_cast<double>(index.numel());
    for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      at::Tensor dense = at::rand({weights}, at::TensorOptions().device(on)).to(type);
      at::Tensor master = at::rand({index.numel()}, at::TensorOptions().device(on));
      double size = static_cast<double>(dense.element_size());
      fmt::print("{}, {} weights, p = {}, {}\n", on.str(),
                 FormatCount(static_cast<double>(weights)), sparsity,
                 type == at::kFloat ? "f32" : "bf16");
      // If a tenth or more is kept, every cache line of the dense tensor is touched.
      double lines = static_cast<double>(weights) * size;
      Compare("compress", kept * (4 + size) + lines, on, rounds,
              {"ours", [&] { Compress(dense, index); }},
              {"libtorch", [&] { dense.index_select(0, index); }});
      Compare("expand (from f32)", kept * 8 + 2 * lines, on, rounds,
              {"ours", [&] { ExpandInto(master, index, dense); }},
              {"libtorch", [&] { dense.index_copy_(0, index.to(at::kLong), master.to(type)); }});
    }
  }
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  using namespace heddle;
  int64_t million = bench::Argument(argc, argv, 1, 32);
  int rounds = static_cast<int>(bench::Argument(argc, argv, 2, 15));
  Measure(at::kCPU, million << 20, rounds);
  if (CudaDevices() > 0) Measure(at::Device(at::kCUDA, 0), million << 20, rounds);
}
