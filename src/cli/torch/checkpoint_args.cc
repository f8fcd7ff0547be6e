#include "cli/torch/checkpoint_args.h"

#include <filesystem>

#include "base/error.h"
#include "base/hash.h"
#include "cli/option_types.h"
#include "cli/quantity_args.h"
#include "plan/plan_file.h"
#include "plan/precision.h"
#include "plan/pruning.h"

namespace heddle {

void CheckpointArgs::Add(CLI::App& command) {
  command.add_option("--checkpoint", options.folder,
                     "folder to save to while training goes on, a folder per step");
  command
      .add_option("--checkpoint-every", options.every,
                  "steps from one checkpoint to the next (default: as --mtbf advises)")
      ->transform(IntegerIn(1, int64_t{1} << 40));
  command.add_option("--keep", options.keep, "checkpoints to keep, the last ones")
      ->transform(IntegerIn(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--mtbf", mtbf,
                  "mean time between failures, as 30min, 12h or 7d (default 3h): with what a save "
                  "costs it gives the interval")
      ->check(LengthOfTime());
  command.add_flag("--resume", options.resume,
                   "go on from the last good checkpoint; from the start where there is none");
  command.add_flag("--override", options.override_settings,
                   "with --resume: go on although the model, data, seed, optimizer or another "
                   "setting that changes the result is not that of the checkpoint");
}

CheckpointOptions CheckpointArgs::Resolve() const {
  CheckpointOptions resolved = options;
  if (!mtbf.empty()) resolved.mtbf = ParseSeconds("--mtbf", mtbf);
  if (resolved.folder.empty() && (resolved.every > 0 || !mtbf.empty())) {
    ThrowInput("{}: give the folder with --checkpoint",
               resolved.every > 0 ? "--checkpoint-every" : "--mtbf");
  }
  if (resolved.override_settings && !resolved.resume)
    ThrowInput("--override: it is for --resume, which is not given");
  RequireUsable(resolved);
  return resolved;
}

Json RunJson(const Model& model, const Plan& plan, const TrainOptions& options,
             const RunSources& sources, const DataSource& data) {
  const OptimizerOptions& optimizer = options.optimizer;
  std::string text = ToJson(plan, model);
  Json run;
  Graph unnamed = model.graph;  // a model is the same under another name
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
  // Rows are a function of seed, step and row: the step is the cursor.
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
