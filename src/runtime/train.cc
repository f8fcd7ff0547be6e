#include "runtime/train.h"

#include <ATen/ATen.h>

#include <chrono>
#include <cmath>

#include "base/error.h"
#include "runtime/data/batch.h"
#include "runtime/single_device.h"

namespace heddle {
namespace {

std::vector<TrainStep> Train(const Graph& graph, const TrainOptions& options,
                             const std::function<void(const TrainStep&)>& on_step) {
  Optimizer optimizer(options.optimizer);
  for (ValueId id : graph.ValuesOf(ValueKind::kInput)) {
    const Value& input = graph.value(id);
    if (ElementCount(input.type.shape, input.name) == 0) {
      ThrowInput("input '{}' {} is empty: there is nothing to train on", input.name, ToString(input.type));
    }
  }
  Batch batch = options.data.empty() ? SyntheticBatch(graph, options.seed)
                                     : ReadBatch(graph, options.data);
  SingleDevice model(graph, {.seed = options.seed,
                             .seeded = options.seeded,
                             .fill_constants = options.fill_constants});
  std::vector<TrainStep> steps;
  for (int64_t step = 0; step < options.steps; ++step) {
    auto start = std::chrono::steady_clock::now();
    StepResult result = model.Run(batch, step);
    if (!std::isfinite(result.loss) && step == 0) {
      ThrowRun("the loss is {} before any update; look at the data and the weights", result.loss);
    }
    if (!std::isfinite(result.loss)) {
      ThrowRun("the loss is {} at step {}; lower the learning rate (--lr {})", result.loss, step,
               options.optimizer.lr / 10);
    }
    optimizer.Step(model.parameters(), result.gradients);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    steps.push_back({step, result.loss, took.count()});
    on_step(steps.back());
  }
  return steps;
}

}  // namespace

std::vector<TrainStep> TrainOnOneDevice(const Graph& graph, const TrainOptions& options,
                                        const std::function<void(const TrainStep&)>& on_step) {
  try {
    return Train(graph, options, on_step);
  } catch (const c10::Error& error) {
    ThrowRun("libtorch: {}", OneLine(error.what_without_backtrace()));
  }
}

}  // namespace heddle
