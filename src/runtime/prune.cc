#include "runtime/prune.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "runtime/tensor.h"

namespace heddle {
namespace {

std::vector<ValueId> Chosen(const Model& model, const PruneOptions& options) {
  std::vector<ValueId> chosen;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    bool dense = options.dense.contains(model.graph.value(id).name);
    if (!dense && IsPrunable(model, id)) chosen.push_back(id);
  }
  if (chosen.empty()) ThrowInput("nothing to prune: no matrix that is trained is left");
  return chosen;
}

// What a weight is worth.
std::vector<float> Scores(const Value& value, const WeightSource& weights,
                          const PruneOptions& options) {
  at::Tensor tensor = weights(value.name).to(at::kFloat).contiguous().reshape({-1});
  std::vector<float> scores(tensor.data_ptr<float>(), tensor.data_ptr<float>() + tensor.numel());
  uint64_t stream = HashString(value.name);
  for (size_t i = 0; i < scores.size(); ++i) {
    scores[i] = options.random ? static_cast<float>(RandomUniform(options.seed, stream, i))
                               : std::abs(scores[i]);
    if (!std::isfinite(scores[i])) ThrowInput("'{}': weight {} is not finite", value.name, i);
  }
  return scores;
}

HostTensor KeepLargest(const Value& value, const std::vector<float>& scores, int64_t count) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  auto worth = [&](int64_t a, int64_t b) {
    float x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::nth_element(order.begin(), order.begin() + (count - 1), order.end(), worth);
  HostTensor mask(DType::kBool, value.type.shape);
  for (int64_t i = 0; i < count; ++i) {
    mask.data[static_cast<size_t>(order[static_cast<size_t>(i)])] = std::byte{1};
  }
  return mask;
}

// The score of the last weight that stays, of all of them together.
float Threshold(std::vector<float> all, double sparsity) {
  int64_t count = KeptOf(static_cast<int64_t>(all.size()), sparsity);
  std::nth_element(all.begin(), all.begin() + (count - 1), all.end(), std::greater<>());
  return all[static_cast<size_t>(count - 1)];
}

}  // namespace

std::map<std::string, HostTensor> MakeMasks(const Model& model, const WeightSource& weights,
                                            const PruneOptions& options) {
  if (!(options.sparsity >= 0 && options.sparsity < 1)) {
    ThrowInput("--sparsity {}: give the share of weights to prune, from 0 to below 1",
               options.sparsity);
  }
  std::vector<ValueId> chosen = Chosen(model, options);
  float threshold = 0;
  if (options.global) {
    std::vector<float> all;
    for (ValueId id : chosen) {
      std::vector<float> scores = Scores(model.graph.value(id), weights, options);
      all.insert(all.end(), scores.begin(), scores.end());
    }
    threshold = Threshold(std::move(all), options.sparsity);
  }
  std::map<std::string, HostTensor> masks;
  for (ValueId id : chosen) {
    const Value& value = model.graph.value(id);
    std::vector<float> scores = Scores(value, weights, options);
    auto elements = static_cast<int64_t>(scores.size());
    int64_t count = KeptOf(elements, options.sparsity);
    if (options.global) {
      count = std::max<int64_t>(1, std::count_if(scores.begin(), scores.end(),
                                                 [&](float score) { return score >= threshold; }));
    }
    masks.emplace(value.name, KeepLargest(value, scores, count));
  }
  return masks;
}

double MaskDistance(const std::map<std::string, HostTensor>& a,
                    const std::map<std::string, HostTensor>& b) {
  double differ = 0, all = 0;
  for (const auto& [name, mask] : a) {
    const HostTensor& other = b.at(name);
    all += static_cast<double>(mask.data.size());
    for (size_t i = 0; i < mask.data.size(); ++i) differ += mask.data[i] != other.data[i] ? 1 : 0;
  }
  return all > 0 ? differ / all : 0;
}

}  // namespace heddle
