// Training a pruned model with compressed state gives, under any plan, the losses of dense training with masked weights
// and gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "../known_models.h"
#include "../run_binary.h"
#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "plan_harness.h"
#include "program/lower.h"
#include "program/verify.h"
#include "runtime/data/batch.h"
#include "runtime/prune.h"
#include "runtime/tensor.h"

namespace heddle {
namespace {

constexpr double kPrunedTolerance = 1e-5;

// The reference by hand: weights and gradients times the mask, gradients clipped together, AdamW by PyTorch's formula.
std::vector<double> MaskedLosses(const Graph& graph, const Batch& batch,
                                 const std::map<std::string, HostTensor>& masks,
                                 const CurveOptions& options) {
  SingleDevice model(graph, {.seed = options.seed});
  const OptimizerOptions& o = options.optimizer;
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> mask, first, second;
  for (size_t p = 0; p < model.parameters().size(); ++p) {
    at::Tensor& weight = model.parameters()[p];
    auto found = masks.find(model.parameter_names()[p]);
    mask.push_back(found == masks.end() ? at::ones_like(weight)
                                        : ToTorchTensor(found->second).to(at::kFloat));
    weight.mul_(mask[p]);
    first.push_back(at::zeros_like(weight));
    second.push_back(at::zeros_like(weight));
  }
  std::vector<double> losses;
  for (int64_t step = 0; step < options.steps; ++step) {
    StepResult result;
    {
      at::AutoGradMode grad(true);
      result = model.Run(batch, step);
    }
    losses.push_back(result.loss);
    double squares = 0;
    for (size_t p = 0; p < mask.size(); ++p) {
      result.gradients[p] = result.gradients[p] * mask[p];
      squares += result.gradients[p].to(at::kDouble).pow(2).sum().item<double>();
    }
    double norm = std::sqrt(squares), scale = 1;
    if (options.clip_norm > 0 && norm > options.clip_norm)
      scale = options.clip_norm / (norm + 1e-6);
    auto t = static_cast<double>(step + 1);
    for (size_t p = 0; p < mask.size(); ++p) {
      at::Tensor& weight = model.parameters()[p];
      at::Tensor gradient = result.gradients[p] * scale;
      weight.mul_(1 - o.lr * o.weight_decay);
      first[p] = o.betas[0] * first[p] + (1 - o.betas[0]) * gradient;
      second[p] = o.betas[1] * second[p] + (1 - o.betas[1]) * gradient * gradient;
      at::Tensor mean = first[p] / (1 - std::pow(o.betas[0], t));
      at::Tensor root = (second[p] / (1 - std::pow(o.betas[1], t))).sqrt() + o.eps;
      weight.sub_(o.lr * mean / root);
      weight.mul_(mask[p]);
    }
  }
  return losses;
}

class PrunedPlans : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const KnownModel& known : KnownModels()) {
      if (known.name != GetParam()) continue;
      model_ = Analyse(LoadModel(known.path, {}));
      batch_ = ReadBatch(model_.graph, known.reference);
    }
    SingleDevice source(model_.graph, {.seed = options_.seed});
    std::map<std::string, at::Tensor> weights;
    for (size_t p = 0; p < source.parameters().size(); ++p) {
      weights[source.parameter_names()[p]] = source.parameters()[p].detach();
    }
    auto find = [&](const std::string& name) { return weights.at(name); };
    masks_ = MakeMasks(model_, find, {.sparsity = 0.8});
    std::vector<NamedTensor> named;
    for (const auto& [name, mask] : masks_) named.push_back({name, &mask});
    WriteSafetensors(folder_ / "mask.safetensors", named);
    mask_ = std::make_unique<Mask>(Mask::Open(folder_ / "mask.safetensors", model_));
    options_.mask = mask_.get();
    options_.steps = 20;
    options_.optimizer.lr = 1e-3;
  }

  void ExpectMasked(const std::vector<Degrees>& plans) {
    std::vector<double> expected = MaskedLosses(model_.graph, batch_, masks_, options_);
    for (const Degrees& d : plans) {
      SCOPED_TRACE(testing::Message()
                   << GetParam() << " dp" << d.dp << " tp" << d.tp << " pp" << d.pp << " m"
                   << d.microbatches << " zero" << d.zero << " sync" << static_cast<int>(d.sync)
                   << " clip" << options_.clip_norm);
      Plan plan = ExpertPlan(model_, LoadCluster("local:4"), d);
      plan.pruning = mask_->pruning();
      ASSERT_EQ(Verify(plan, model_), std::vector<std::string>{});
      ASSERT_EQ(Verify(Lower(model_, plan, mask_.get())), std::vector<std::string>{});
      Curve got = OnThreads(model_, plan, batch_, options_);
      ASSERT_EQ(got.losses.size(), expected.size());
      for (size_t s = 0; s < expected.size(); ++s) {
        EXPECT_NEAR(got.losses[s], expected[s], kPrunedTolerance * std::abs(expected[s]))
            << "step " << s;
      }
      for (const auto& [name, mask] : masks_) {  // pruned weights are zero and stay zero
        at::Tensor dropped = 1 - ToTorchTensor(mask).to(at::kFloat);
        EXPECT_EQ((got.weights.at(name) * dropped).abs().max().item<double>(), 0) << name;
      }
    }
  }

  TempFolder folder_;
  Model model_;
  Batch batch_;
  std::map<std::string, HostTensor> masks_;
  std::unique_ptr<Mask> mask_;
  CurveOptions options_;
};

TEST_P(PrunedPlans, LossesAreThoseOfMaskedTraining) {
  ExpectMasked({{},
                {.dp = 2},
                {.dp = 4},
                {.tp = 2},
                {.pp = 2},
                {.dp = 2, .microbatches = 2},
                {.dp = 2, .zero = 1},
                {.dp = 2, .zero = 2},
                {.dp = 2, .zero = 3},
                {.dp = 2, .microbatches = 2, .zero = 3},
                {.dp = 2, .tp = 2, .zero = 1}});
}

TEST_P(PrunedPlans, AlsoWhereGradientsAreClipped) {
  options_.clip_norm = 0.5;
  ExpectMasked({{},
                {.dp = 2, .tp = 2},
                {.dp = 2, .pp = 2, .microbatches = 2},
                {.dp = 4, .zero = 2},
                {.dp = 2, .tp = 2, .zero = 3},
                {.tp = 2, .pp = 2, .microbatches = 2},
                {.dp = 2, .pp = 2, .microbatches = 2, .zero = 1},
                {.dp = 2, .sync = GradientSync::kServer},
                {.dp = 2, .sync = GradientSync::kFactors},
                {.dp = 2, .microbatches = 2, .zero = 1}});
}

INSTANTIATE_TEST_SUITE_P(All, PrunedPlans,
                         testing::Values("tiny-mlp", "tiny-cnn", "tiny-gpt2", "tiny-llama",
                                         "tiny-moe", "tiny-t5"),
                         [](const auto& at) {
                           std::string name = at.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace heddle
