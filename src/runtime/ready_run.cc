#include "runtime/ready_run.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "graph/safetensors.h"
#include "plan/precision.h"
#include "program/lower.h"
#include "program/verify.h"

namespace heddle {
namespace {

// Reads the losses of another run from a safetensors file.
std::vector<double> ReadReference(const std::string& path, int64_t steps) {
  SafetensorsFile file = SafetensorsFile::Open(path);
  for (std::string_view name : {"losses", "adamw_losses"}) {
    if (file.Find(name) == nullptr) continue;
    HostTensor tensor = file.Load(name);
    std::vector<double> losses;
    for (int64_t i = 0; i < tensor.size(); ++i) losses.push_back(AsDouble(tensor, i));
    bool finite =
        std::all_of(losses.begin(), losses.end(), [](double x) { return std::isfinite(x); });
    if (losses.empty() || !finite) ThrowInput("{}: tensor '{}' holds no finite losses", path, name);
    if (static_cast<int64_t>(losses.size()) < steps) {
      ThrowInput("{}: {} losses for {} steps; use --steps {}", path, losses.size(), steps,
                 losses.size());
    }
    return losses;
  }
  ThrowInput("{}: no tensor 'losses' or 'adamw_losses'", path);
}

void PrepareEvaluation(ReadyRun& run, const std::string& path) {
  if (path.empty()) return;
  const Graph& graph = run.model->graph;
  run.held_out = OpenData(graph, {.path = path, .seed = run.options.seed});
  for (int64_t batch = 0; batch < run.options.evaluation.batches; ++batch)
    run.held_out->Rows(batch, {0, BatchOf(graph)});
  run.forward = std::make_unique<Program>(LowerForward(*run.model, run.plan, run.mask.get()));
  std::vector<std::string> wrong = Verify(*run.forward);
  HEDDLE_CHECK(wrong.empty(), "the forward program is unsound: {}", wrong.front());
}

}  // namespace

void RequireRunnable(const Precision& precision) {
  if (precision.products == Products::kAsCompute) return;
  ThrowInput("precision {}: such a plan can be simulated but not run yet; use f32, bf16 or f16",
             PrecisionName(precision.compute, precision.products));
}

void OpenMask(ReadyRun& run, const std::string& path, std::string_view plan_name) {
  if (path.empty()) {
    if (!run.plan.pruning.any()) return;
    ThrowInput("{}: the plan is for a pruned model: give its mask (--mask, see 'heddle prune')",
               plan_name);
  }
  run.mask = std::make_unique<Mask>(Mask::Open(path, *run.model));
  run.plan.pruning = run.mask->pruning();
  run.options.mask = run.mask.get();
}

void MakeReady(ReadyRun& run, const RunFiles& files, const WeightOptions& start) {
  const Model& model = *run.model;
  run.data = OpenData(model.graph, {.path = files.data, .seed = run.options.seed});
  run.constants = MakeConstants(model.graph, start);
  run.weights = MakeWeights(model.graph, model.rules, start);
  if (!files.reference.empty()) run.reference = ReadReference(files.reference, run.options.steps);
  run.program = Lower(model, run.plan, run.mask.get());
  std::vector<std::string> wrong = Verify(run.program);
  HEDDLE_CHECK(wrong.empty(), "the program is unsound: {}", wrong.front());
  PrepareEvaluation(run, files.held_out);
}

}  // namespace heddle
