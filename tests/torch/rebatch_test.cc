// A model at another batch gives the same results for every sample.
#include "ops/rebatch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../known_models.h"
#include "frontend/load.h"
#include "runtime/data/batch.h"
#include "runtime/single_device.h"

namespace heddle {
namespace {

// A batch with samples chosen from another batch, some of them repeated.
Batch Pick(const Batch& batch, const std::vector<int64_t>& samples) {
  Batch picked;
  for (const auto& [name, tensor] : batch) {
    picked[name] = tensor.index_select(0, at::tensor(samples, at::kLong));
  }
  return picked;
}

class Rebatched : public testing::TestWithParam<std::string> {};

TEST_P(Rebatched, LossesAreThoseOfTheSamples) {
  std::string stem = fmt::format("{}/pytorch/{}", HEDDLE_TEST_DATA, GetParam());
  Graph graph = LoadModel(stem + ".onnx");
  Batch batch = ReadBatch(graph, stem + ".ref.safetensors");
  int64_t size = batch.begin()->second.size(0);
  Graph one = Rebatch(graph, 1);
  SingleDevice single(one, {});
  std::vector<double> losses;
  for (int64_t sample = 0; sample < size; ++sample) {
    losses.push_back(single.Run(Pick(batch, {sample}), 0).loss);
  }
  for (int64_t n : {int64_t{1}, int64_t{2}, size, int64_t{6}}) {
    std::vector<int64_t> samples;
    double mean = 0;
    for (int64_t i = 0; i < n; ++i) {
      samples.push_back((i * 3 + 1) % size);
      mean += losses[static_cast<size_t>(samples.back())] / static_cast<double>(n);
    }
    // Also from batch 1, for which the shapes do not show the batch.
    for (const Graph& from : {graph, one}) {
      Graph other = Rebatch(from, n);
      double loss = SingleDevice(other, {}).Run(Pick(batch, samples), 0).loss;
      EXPECT_NEAR(loss, mean, 1e-6 * std::abs(mean)) << "batch " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, Rebatched,
                         testing::Values("tiny-gpt2", "tiny-moe", "tiny-llama", "tiny-t5",
                                         "tiny-mlp", "tiny-cnn"),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace heddle
