// Plans run by processes. Every rank compares its losses and its part of every gradient with one device.
//
//   mpirun -np 4 plan_mpi_test tests/data      the plans for 4 devices
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "runtime/data/batch.h"
#include "runtime/executor.h"
#include "runtime/kernel_threads.h"
#include "runtime/tiles.h"
#include "runtime/transport/mpi.h"

namespace heddle {
namespace {

constexpr double kTolerance = 1e-4;
constexpr int64_t kSteps = 10;

struct Case {
  std::string model;
  Degrees degrees;
};

std::vector<Case> Cases() {
  constexpr RecomputePolicy kFull = RecomputePolicy::kFull;
  return {
      {"tiny-mlp", {.dp = 2}},
      {"tiny-cnn", {.dp = 2}},
      {"tiny-gpt2", {.dp = 2, .zero = 3}},
      {"tiny-gpt2", {.dp = 2, .sync = GradientSync::kFactors}},
      {"tiny-cnn", {.dp = 2, .sync = GradientSync::kServer}},
      {"tiny-llama", {.tp = 2, .sp = true}},
      {"tiny-t5", {.pp = 2, .microbatches = 2}},
      {"tiny-gpt2", {.cp = 2}},
      {"tiny-moe", {.dp = 2, .ep = 2}},
      {"tiny-gpt2", {.dp = 2, .tp = 2, .zero = 2}},
      {"tiny-llama", {.tp = 2, .pp = 2, .microbatches = 4, .schedule = "zb", .recompute = kFull}},
      {"tiny-t5", {.dp = 2, .tp = 2, .zero = 1}},
      {"tiny-moe", {.dp = 4, .ep = 2}},
      {"tiny-t5", {.dp = 2, .pp = 2, .microbatches = 2, .sync = GradientSync::kFactors}},
      {"tiny-moe", {.dp = 2, .tp = 2, .sync = GradientSync::kServer}},
      {"tiny-cnn", {.dp = 2, .pp = 2}},
      {"tiny-gpt2", {.dp = 2, .tp = 2, .pp = 2, .microbatches = 2, .schedule = "zb-h1", .zero = 1}},
      {"tiny-llama", {.dp = 2, .pp = 4, .microbatches = 2, .schedule = "gpipe"}},
      {"tiny-mlp", {.dp = 2, .tp = 4, .zero = 3}},
  };
}

struct Expected {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> gradients;
  double largest = 0;
};

Expected OneDevice(const Graph& graph, const Batch& batch) {
  SingleDevice model(graph, {});
  Optimizer optimizer({});
  Expected expected;
  for (int64_t step = 0; step < kSteps; ++step) {
    StepResult result = model.Run(batch, step);
    expected.losses.push_back(result.loss);
    for (size_t p = 0; p < result.gradients.size() && step == 0; ++p) {
      expected.gradients[model.parameter_names()[p]] = result.gradients[p].clone();
      expected.largest = std::max(expected.largest, result.gradients[p].norm().item<double>());
    }
    optimizer.Step(model.parameters(), result.gradients);
  }
  return expected;
}

void Compare(const Executor& executor, const Expected& expected) {
  for (const ParameterPart& part : executor.Gradients()) {
    const at::Tensor& whole = expected.gradients.at(part.name);
    double scale = std::max(whole.norm().item<double>(), 1e-4 * expected.largest);
    double error = (TakeTile(whole, part.tile) - part.values).norm().item<double>() / scale;
    if (!(error < kTolerance)) ThrowRun("the gradient of {} is {:.1e} away", part.name, error);
  }
}

// Returns the losses under the plan of these degrees. Also compares the gradients of the first step.
std::vector<double> Train(Transport& transport, const Model& model, const Degrees& degrees,
                          const Batch& batch, const Expected& expected) {
  Plan plan = ExpertPlan(model, LoadCluster(fmt::format("local:{}", transport.size())), degrees);
  RequireSound(plan, model, model.graph.name);
  Program program = Lower(model, plan);
  ExecutorOptions options;
  options.keep_gradients = true;
  Executor executor(program, transport, options, MakeWeights(model.graph, model.rules, {}),
                    MakeConstants(model.graph, {}),
                    [&](int64_t, Block rows) { return RowsOf(batch, rows); });
  std::vector<double> losses;
  for (int64_t step = 0; step < kSteps; ++step) {
    losses.push_back(executor.RunStep(step).loss);
    if (step == 0) Compare(executor, expected);
  }
  return losses;
}

void ExpectLosses(const std::vector<double>& losses, const std::vector<double>& wanted,
                  double tolerance, std::string_view what) {
  for (size_t step = 0; step < losses.size(); ++step) {
    if (std::abs(losses[step] - wanted[step]) <= tolerance * std::abs(wanted[step])) continue;
    ThrowRun("loss {} at step {}, {} has {}", losses[step], step, what, wanted[step]);
  }
}

void RunCase(Transport& transport, const Case& at, const std::string& data) {
  std::string path = data + "/pytorch/" + at.model;
  Model model = Analyse(LoadModel(path + ".onnx", {}));
  Batch batch = ReadBatch(model.graph, path + ".ref.safetensors");
  Expected expected = OneDevice(model.graph, batch);
  std::vector<double> losses = Train(transport, model, at.degrees, batch, expected);
  ExpectLosses(losses, expected.losses, kTolerance, "one device");
  if (at.degrees.sync == GradientSync::kReduce) return;
  Degrees reduced = at.degrees;
  reduced.sync = GradientSync::kReduce;
  ExpectLosses(losses, Train(transport, model, reduced, batch, expected), 1e-6,
               "the plan that reduces gradients");
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  using namespace heddle;
  return RunMpi([&](Transport& transport) {
    SetKernelThreads(1);
    if (argc != 2) ThrowInput("give the folder of the test data");
    int ran = 0;
    for (const Case& at : Cases()) {
      if (DevicesOf(at.degrees) != transport.size()) continue;
      RunCase(transport, at, argv[1]);
      ++ran;
      if (transport.rank() == 0)
        fmt::print("{} on {} ranks: like one device\n", at.model, transport.size());
    }
    if (ran == 0) ThrowInput("there is no plan for {} ranks", transport.size());
  });
}
