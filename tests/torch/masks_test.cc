// Compares masks with those from sorting all weights.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "frontend/load.h"
#include "runtime/kernel_threads.h"
#include "runtime/prune.h"

namespace heddle {
namespace {

using MaskMap = std::map<std::string, HostTensor>;

constexpr const char* kMaskModel = "gpt:layers=2,hidden=96,heads=2,vocab=900,seq=16,batch=2";

// Weights with few distinct values, so that there are many ties, and zeros of both signs.
at::Tensor TiedWeights(const Shape& shape, int64_t seed) {
  at::Tensor steps = at::arange(ElementCount(shape), at::kLong);
  steps = (steps * steps * 7919 + steps * (31 + seed)).remainder(41) - 20;
  return (steps.to(at::kFloat) * 0.125f).reshape(shape);
}

WeightSource TiedSource(const Model& model) {
  return [&model](const std::string& name) {
    for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
      const Value& value = model.graph.value(id);
      if (value.name == name) return TiedWeights(value.type.shape, id.value);
    }
    return at::Tensor();
  };
}

// Keeps the `count` largest weights, of equal ones the first.
std::vector<std::byte> BySorting(const at::Tensor& weights, size_t count) {
  at::Tensor flat = weights.abs().reshape({-1}).contiguous();
  const float* worth = flat.data_ptr<float>();
  std::vector<size_t> order(static_cast<size_t>(flat.numel()));
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return worth[a] > worth[b]; });
  std::vector<std::byte> mask(order.size(), std::byte{0});
  for (size_t i = 0; i < count; ++i) mask[order[i]] = std::byte{1};
  return mask;
}

TEST(Masks, KeepTheLargestAndOfEqualOnesTheFirst) {
  Model model = Analyse(LoadModel(kMaskModel));
  WeightSource weights = TiedSource(model);
  for (double sparsity : {0.0, 0.35, 0.9, 0.9999}) {
    MaskMap masks = MakeMasks(model, weights, {.sparsity = sparsity});
    EXPECT_GT(masks.size(), 4u);
    for (const auto& [name, mask] : masks) {
      auto count = static_cast<size_t>(KeptOf(static_cast<int64_t>(mask.data.size()), sparsity));
      EXPECT_EQ(mask.data, BySorting(weights(name), count)) << name << " " << sparsity;
    }
  }
}

TEST(Masks, OfAllTogetherHaveOneThreshold) {
  Model model = Analyse(LoadModel(kMaskModel));
  WeightSource weights = MakeWeights(model.graph, model.rules, {.seed = 3});
  MaskMap masks = MakeMasks(model, weights, {.sparsity = 0.8, .global = true});
  std::vector<float> all;
  for (const auto& [name, mask] : masks) {
    at::Tensor flat = weights(name).abs().reshape({-1}).contiguous();
    all.insert(all.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }
  std::sort(all.begin(), all.end(), std::greater<>());
  float least = all[static_cast<size_t>(KeptOf(static_cast<int64_t>(all.size()), 0.8) - 1)];
  for (const auto& [name, mask] : masks) {
    at::Tensor flat = weights(name).abs().reshape({-1}).contiguous();
    auto larger = static_cast<size_t>(flat.ge(least).sum().item<int64_t>());
    EXPECT_EQ(mask.data, BySorting(flat, std::max<size_t>(1, larger))) << name;
  }
}

TEST(Masks, AreTheSameForAnyNumberOfThreads) {
  Model model = Analyse(LoadModel(kMaskModel));
  WeightSource weights = TiedSource(model);
  for (PruneOptions options :
       {PruneOptions{}, PruneOptions{.global = true}, PruneOptions{.random = true, .seed = 5}}) {
    SetKernelThreads(1);
    MaskMap one = MakeMasks(model, weights, options);
    SetKernelThreads(4);
    MaskMap four = MakeMasks(model, weights, options);
    SetKernelThreads(1);
    EXPECT_EQ(MaskDistance(one, four), 0);
  }
}

// Random masks have the right number of weights, depend on the seed, and do not depend on the initial weights.
TEST(Masks, RandomOnesAskForNoWeights) {
  Model model = Analyse(LoadModel(kMaskModel));
  auto none = [](const std::string&) -> at::Tensor { ThrowInput("weights were asked for"); };
  MaskMap first = MakeMasks(model, none, {.sparsity = 0.5, .random = true, .seed = 5});
  MaskMap other = MakeMasks(model, none, {.sparsity = 0.5, .random = true, .seed = 6});
  EXPECT_NEAR(MaskDistance(first, other), 0.5, 0.02);
  WeightSource weights = MakeWeights(model.graph, model.rules, {.seed = 5});
  MaskMap largest = MakeMasks(model, weights, {.sparsity = 0.5, .seed = 5});
  EXPECT_NEAR(MaskDistance(first, largest), 0.5, 0.02);
  for (const auto& [name, mask] : first) {
    auto kept = std::count(mask.data.begin(), mask.data.end(), std::byte{1});
    EXPECT_EQ(kept, KeptOf(static_cast<int64_t>(mask.data.size()), 0.5)) << name;
  }
}

TEST(Masks, WeightsThatAreNotFiniteAreNamed) {
  Model model = Analyse(LoadModel(kMaskModel));
  auto weights = [source = TiedSource(model)](const std::string& name) {
    at::Tensor given = source(name);
    if (given.numel() == 900 * 96) given.view({-1})[70001] = std::nanf("");
    return given;
  };
  try {
    MakeMasks(model, weights, {});
    FAIL() << "nothing was said";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("weight 70001 is not finite"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace heddle
