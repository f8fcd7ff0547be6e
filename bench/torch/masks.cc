// Masks of a GPT-2 of 124 million parameters: compares MakeMasks with its predecessor, a single thread that scores
// every weight and partitions the positions by score (nth_element). Making the weights is not timed. Masks by magnitude
// must be the same. Times are wall seconds, the shortest of some rounds.
//
//   build/bench/masks [rounds] [threads]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>
#include <thread>

#include "base/hash.h"
#include "base/rng.h"
#include "frontend/load.h"
#include "runtime/kernel_threads.h"
#include "runtime/prune.h"

namespace heddle {
namespace {

using Masks = std::map<std::string, HostTensor>;

double Seconds(const std::function<void()>& work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Masks InOrder(const Model& model, const WeightSource& weights, const PruneOptions& options) {
  Masks masks;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    if (!IsPrunable(model, id)) continue;
    const Value& value = model.graph.value(id);
    at::Tensor given = weights(value.name).contiguous();
    std::vector<float> worth(given.data_ptr<float>(), given.data_ptr<float>() + given.numel());
    uint64_t stream = HashString(value.name);
    for (size_t i = 0; i < worth.size(); ++i) {
      worth[i] = options.random ? static_cast<float>(RandomUniform(options.seed, stream, i))
                                : std::abs(worth[i]);
    }
    std::vector<int64_t> order(worth.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    int64_t count = KeptOf(given.numel(), options.sparsity);
    std::nth_element(order.begin(), order.begin() + (count - 1), order.end(),
                     [&](int64_t a, int64_t b) {
                       float x = worth[static_cast<size_t>(a)], y = worth[static_cast<size_t>(b)];
                       return x != y ? x > y : a < b;
                     });
    HostTensor mask(DType::kBool, value.type.shape);
    for (int64_t i = 0; i < count; ++i)
      mask.data[static_cast<size_t>(order[static_cast<size_t>(i)])] = std::byte{1};
    masks.emplace(value.name, std::move(mask));
  }
  return masks;
}

int Run(int rounds, int threads) {
  SetKernelThreads(threads);
  Model model = Analyse(LoadModel("gpt2"));
  WeightSource source = MakeWeights(model.graph, model.rules, {});
  std::map<std::string, at::Tensor> held;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter))
    held[model.graph.value(id).name] = source(model.graph.value(id).name);
  WeightSource weights = [&](const std::string& name) { return held.at(name); };
  fmt::print("{:<10} {:>12} {:>12} {:>7}   {} threads\n", "masks", "in order", "MakeMasks", "ratio",
             threads);
  bool same = true;
  for (bool random : {false, true}) {
    PruneOptions options{.random = random};
    double before = 1e9, after = 1e9;
    Masks expected, got;
    for (int round = 0; round < rounds; ++round) {
      before = std::min(before, Seconds([&] { expected = InOrder(model, weights, options); }));
      after = std::min(after, Seconds([&] { got = MakeMasks(model, weights, options); }));
    }
    if (!random) same = MaskDistance(expected, got) == 0;
    fmt::print("{:<10} {:>10.2f} s {:>10.2f} s {:>6.1f}x\n", random ? "random" : "magnitude",
               before, after, before / after);
  }
  if (!same) fmt::print("masks by magnitude are not the same\n");
  return same ? 0 : 1;
}

}  // namespace
}  // namespace heddle

int main(int count, char** words) {
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return heddle::Run(count > 1 ? std::atoi(words[1]) : 2, count > 2 ? std::atoi(words[2]) : cores);
}
