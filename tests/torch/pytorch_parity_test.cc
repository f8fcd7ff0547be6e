// On one device heddle computes what PyTorch computes: losses, every gradient, and 20 steps of AdamW.
#include <gtest/gtest.h>

#include <cmath>

#include "../known_models.h"
#include "frontend/load.h"
#include "graph/safetensors.h"
#include "runtime/data/batch.h"
#include "runtime/optimizer.h"
#include "runtime/single_device.h"
#include "runtime/tensor.h"

namespace heddle {
namespace {

std::vector<KnownModel> WithReference() {
  std::vector<KnownModel> models;
  for (KnownModel& model : KnownModels()) {
    if (!model.reference.empty()) models.push_back(model);
  }
  return models;
}

struct Variant {
  KnownModel model;
  bool fuse;
};
void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.model.name; }

std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  for (const KnownModel& model : WithReference()) {
    variants.push_back({model, true});
    variants.push_back({model, false});
  }
  return variants;
}

class PyTorchParity : public testing::TestWithParam<Variant> {
 protected:
  const KnownModel& known() const { return GetParam().model; }
  Graph Load() const {
    ImportOptions options;
    options.fuse = GetParam().fuse;
    return LoadModel(known().path, options);
  }
  at::Tensor Reference(const std::string& name) const {
    return ToTorchTensor(SafetensorsFile::Open(known().reference).Load(name));
  }
};

TEST_P(PyTorchParity, LossAndEveryGradient) {
  Graph graph = Load();
  SingleDevice model(graph, {});
  StepResult step = model.Run(ReadBatch(graph, known().reference), 0);
  double loss = Reference("loss").item<double>();
  EXPECT_NEAR(step.loss, loss, 1e-5 * std::abs(loss));

  std::map<std::string, at::Tensor> expected;
  double largest = 0;
  SafetensorsFile file = SafetensorsFile::Open(known().reference);
  for (const SafetensorsEntry& entry : file.tensors()) {
    if (!entry.name.starts_with("grad.")) continue;
    std::string name = entry.name.substr(5);
    if (auto alias = known().aliases.find(name); alias != known().aliases.end())
      name = alias->second;
    expected[name] = Reference(entry.name);
    largest = std::max(largest, expected[name].norm().item<double>());
  }
  ASSERT_EQ(expected.size(), model.parameter_names().size());
  for (size_t p = 0; p < model.parameter_names().size(); ++p) {
    const std::string& name = model.parameter_names()[p];
    ASSERT_TRUE(expected.contains(name)) << name;
    double scale = std::max(expected[name].norm().item<double>(), 1e-4 * largest);
    double error = (step.gradients[p] - expected[name]).norm().item<double>();
    EXPECT_LE(error, 1e-4 * scale) << name;
  }
}

TEST_P(PyTorchParity, TwentyStepsOfAdamW) {
  Graph graph = Load();
  SingleDevice model(graph, {});
  Batch batch = ReadBatch(graph, known().reference);
  Optimizer optimizer(
      {.name = "adamw", .lr = 1e-3, .betas = {0.9, 0.95}, .eps = 1e-8, .weight_decay = 0.1});
  at::Tensor losses = Reference("adamw_losses");
  ASSERT_EQ(losses.numel(), 20);
  for (int64_t step = 0; step < 20; ++step) {
    StepResult result = model.Run(batch, step);
    double expected = losses[step].item<double>();
    EXPECT_NEAR(result.loss, expected, 1e-4 * std::abs(expected)) << "step " << step;
    optimizer.Step(model.parameters(), result.gradients);
  }
  EXPECT_LT(losses[19].item<double>(), losses[0].item<double>());
}

INSTANTIATE_TEST_SUITE_P(Tiny, PyTorchParity, testing::ValuesIn(Variants()), [](const auto& info) {
  return TestName(info.param.model.name) + (info.param.fuse ? "_fused" : "_unfused");
});

}  // namespace
}  // namespace heddle
