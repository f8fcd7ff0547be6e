#include "runtime/checkpoint/run_json.h"

#include <filesystem>

#include "base/hash.h"
#include "plan/plan_file.h"
#include "plan/precision.h"
#include "plan/pruning.h"

namespace heddle {

Json RunJson(const Model& model, const Plan& plan, const TrainOptions& options,
             const RunSources& sources, const DataSource& data) {
  const OptimizerOptions& optimizer = options.optimizer;
  std::string text = ToJson(plan, model);
  Json run;
  Graph unnamed = model.graph;  // the hash does not depend on the model's name
  unnamed.name.clear();
  run["model"] = {{"source", sources.model},
                  {"hash", HashToHex(plan.model.hash)},
                  {"experiment_hash", HashToHex(StableHash(unnamed))}};
  run["weights"] = std::filesystem::path(sources.weights).filename().string();
  run["seed"] = options.seed;
  run["steps"] = options.steps;
  run["optimizer"] = {{"name", optimizer.name},
                      {"lr", optimizer.lr},
                      {"betas", optimizer.betas},
                      {"eps", optimizer.eps},
                      {"weight_decay", optimizer.weight_decay},
                      {"momentum", optimizer.momentum},
                      {"clip_norm", options.clip_norm}};
  run["lr_schedule"] = {{"kind", options.lr.kind},
                        {"warmup_steps", options.lr.warmup_steps},
                        {"total_steps", options.lr.total_steps},
                        {"final_fraction", options.lr.final_fraction}};
  // Rows are a function of seed, step and row, so the step number is the only position to store.
  run["data"] = {{"path", sources.data},
                 {"what", data.Describe()},
                 {"hash", HashToHex(data.Fingerprint())},
                 {"batch", plan.batch}};
  run["precision"] = PrecisionName(plan.precision.compute, plan.precision.products);
  run["batch_statistics"] = plan.local_batch_statistics ? "local" : "global";
  run["mask"] = options.mask != nullptr ? Json(HashToHex(options.mask->hash())) : Json();
  run["plan_hash"] = HashToHex(HashString(text));
  run["plan"] = ParseJson(text, "plan");
  return run;
}

}  // namespace heddle
