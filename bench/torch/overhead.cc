// The overhead of running a program: heddle's step / the same step written by hand in libtorch (same kernels, autograd,
// AdamW), for a GPT of about 25 million parameters on one device. Both have the same initial weights and batch, and
// their losses are compared. Steps alternate, so that other processes on the machine affect both; the shortest of each
// counts.
//
//   OMP_WAIT_POLICY=passive build/bench/overhead [steps] [threads]     (heddle sets that variable for itself)
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/clock.h"
#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "runtime/allocation_meter.h"
#include "runtime/data/data_source.h"
#include "runtime/executor.h"
#include "runtime/kernel_threads.h"
#include "runtime/transport/threads.h"
#include "runtime/weights.h"

namespace heddle {
namespace {

constexpr int kLayers = 6, kHidden = 512, kHeads = 8, kSequence = 128, kVocabulary = 10000,
              kBatch = 4;

// GPT-2 written by hand in libtorch.
class ByHand {
 public:
  ByHand(const Graph& graph, const WeightSource& weights) {
    for (ValueId id : graph.ValuesOf(ValueKind::kParameter)) {
      const std::string& name = graph.value(id).name;
      at::Tensor weight = weights(name).clone().set_requires_grad(true);
      names_[name] = weights_.size();
      weights_.push_back(weight);
      first_.push_back(at::zeros_like(weight));
      second_.push_back(at::zeros_like(weight));
    }
  }

  double Step(const Batch& batch) {
    at::Tensor loss = Loss(batch.at("input_ids"), batch.at("labels"));
    std::vector<at::Tensor> gradients = torch::autograd::grad({loss}, weights_);
    Update(gradients);
    return loss.item<double>();
  }

 private:
  const at::Tensor& W(const std::string& name) const {
    return weights_[names_.at("transformer." + name)];
  }

  at::Tensor Linear(const at::Tensor& x, const std::string& name) const {
    at::Tensor flat = x.reshape({-1, x.size(-1)});
    Shape shape = x.sizes().vec();
    at::Tensor y = at::addmm(W(name + ".bias"), flat, W(name + ".weight"));
    shape.back() = y.size(-1);
    return y.view(shape);
  }
  at::Tensor Norm(const at::Tensor& x, const std::string& name) const {
    return at::layer_norm(x, {kHidden}, W(name + ".weight"), W(name + ".bias"), 1e-5);
  }

  at::Tensor Attention(const at::Tensor& x, const std::string& name) const {
    std::vector<at::Tensor> qkv = Linear(x, name + ".c_attn").split(kHidden, 2);
    for (at::Tensor& t : qkv)
      t = t.view({kBatch, kSequence, kHeads, kHidden / kHeads}).transpose(1, 2);
    at::Tensor scores = at::matmul(qkv[0], qkv[1].transpose(2, 3)) / std::sqrt(kHidden / kHeads);
    scores = scores.masked_fill(mask_, -std::numeric_limits<double>::infinity());
    at::Tensor out = at::matmul(at::softmax(scores, -1), qkv[2]);
    return Linear(out.transpose(1, 2).reshape({kBatch, kSequence, kHidden}), name + ".c_proj");
  }

  at::Tensor Loss(const at::Tensor& ids, const at::Tensor& labels) const {
    at::Tensor x = at::embedding(W("wte.weight"), ids) + W("wpe.weight");
    for (int layer = 0; layer < kLayers; ++layer) {
      std::string h = fmt::format("h.{}.", layer);
      x = x + Attention(Norm(x, h + "ln_1"), h + "attn");
      x = x +
          Linear(at::gelu(Linear(Norm(x, h + "ln_2"), h + "mlp.c_fc"), "tanh"), h + "mlp.c_proj");
    }
    at::Tensor logits = at::matmul(Norm(x, "ln_f").view({-1, kHidden}), W("wte.weight").t());
    return at::cross_entropy_loss(logits, labels.view({-1}));
  }

  // AdamW as in torch.optim.
  void Update(const std::vector<at::Tensor>& gradients) {
    at::NoGradGuard no_grad;
    ++steps_;
    double correction1 = 1 - std::pow(0.9, steps_),
           correction2 = std::sqrt(1 - std::pow(0.95, steps_));
    for (size_t p = 0; p < weights_.size(); ++p) {
      weights_[p].mul_(1 - 1e-3 * 0.1);
      first_[p].mul_(0.9).add_(gradients[p], 0.1);
      second_[p].mul_(0.95).addcmul_(gradients[p], gradients[p], 0.05);
      weights_[p].addcdiv_(first_[p], (second_[p].sqrt() / correction2).add_(1e-8),
                           -1e-3 / correction1);
    }
  }

  std::map<std::string, size_t> names_;
  std::vector<at::Tensor> weights_, first_, second_;
  at::Tensor mask_ = at::ones({kSequence, kSequence}, at::kBool).triu(1);
  int steps_ = 0;
};

int Main(int steps, int threads) {
  SetKernelThreads(threads);
  MeterAllocations();  // as in `heddle train`
  std::string name = fmt::format("gpt:layers={},hidden={},heads={},seq={},vocab={},batch={}",
                                 kLayers, kHidden, kHeads, kSequence, kVocabulary, kBatch);
  Model model = Analyse(LoadModel(name));
  double parameters = 0;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    parameters += static_cast<double>(ElementCount(model.graph.value(id).type.shape));
  }
  Program program = Lower(model, ExpertPlan(model, LoadCluster("local:1"), {}));
  WeightSource weights = MakeWeights(model.graph, model.rules, {});
  std::unique_ptr<DataSource> data = OpenData(model.graph, {});
  auto transports = MakeThreadTransports(1);
  Executor executor(program, *transports[0], {}, weights, MakeConstants(model.graph, {}),
                    [&](int64_t step, Block rows) { return data->Rows(step, rows); });
  ByHand by_hand(model.graph, weights);
  fmt::print("GPT of {:.1f} million parameters, {} tokens a step, {} thread{}\n", parameters / 1e6,
             kBatch * kSequence, threads, threads == 1 ? "" : "s");
  std::vector<double> ours, theirs;
  double apart = 0;
  for (int step = 0; step < steps; ++step) {
    double start = SteadySeconds();
    double loss = executor.RunStep(step).loss;
    double middle = SteadySeconds();
    double reference = by_hand.Step(data->Rows(step, {0, kBatch}));
    double end = SteadySeconds();
    apart = std::max(apart, std::abs(loss - reference) / std::abs(reference));
    if (step == 0) continue;  // warm-up
    ours.push_back(middle - start);
    theirs.push_back(end - middle);
  }
  double heddle = *std::min_element(ours.begin(), ours.end());
  double hand = *std::min_element(theirs.begin(), theirs.end());
  fmt::print("heddle {:.1f} ms, by hand {:.1f} ms, ratio {:.3f}; losses differ by {:.1e} at most\n",
             1e3 * heddle, 1e3 * hand, heddle / hand, apart);
  return apart < 1e-4 ? 0 : 1;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  int steps = argc > 1 ? std::atoi(argv[1]) : 15;
  int threads = argc > 2 ? std::atoi(argv[2]) : 1;
  return heddle::Main(std::max(2, steps), std::max(1, threads));
}
