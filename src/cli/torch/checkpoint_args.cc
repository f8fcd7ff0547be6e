#include "cli/torch/checkpoint_args.h"

#include "base/error.h"
#include "base/hash.h"
#include "cli/option_types.h"
#include "cli/quantity_args.h"
#include "plan/plan_file.h"

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
}

CheckpointOptions CheckpointArgs::Resolve() const {
  CheckpointOptions resolved = options;
  if (!mtbf.empty()) resolved.mtbf = ParseSeconds("--mtbf", mtbf);
  if (resolved.folder.empty() && (resolved.every > 0 || !mtbf.empty())) {
    ThrowInput("{}: give the folder with --checkpoint",
               resolved.every > 0 ? "--checkpoint-every" : "--mtbf");
  }
  RequireUsable(resolved);
  return resolved;
}

Json RunJson(const Model& model, const Plan& plan, const TrainOptions& options,
             const std::string& source, const std::string& data_path, const DataSource& data) {
  const OptimizerOptions& optimizer = options.optimizer;
  std::string text = ToJson(plan, model);
  Json run;
  run["model"] = {{"source", source}, {"hash", HashToHex(plan.model.hash)}};
  run["seed"] = options.seed;
  run["steps"] = options.steps;
  run["optimizer"] = {{"name", optimizer.name},
                      {"lr", optimizer.lr},
                      {"betas", optimizer.betas},
                      {"eps", optimizer.eps},
                      {"weight_decay", optimizer.weight_decay},
                      {"clip_norm", options.clip_norm}};
  run["lr_schedule"] = {{"kind", options.lr.kind},
                        {"warmup_steps", options.lr.warmup_steps},
                        {"total_steps", options.lr.total_steps},
                        {"final_fraction", options.lr.final_fraction}};
  // Rows are a function of seed, step and row: the step is the cursor.
  run["data"] = {{"path", data_path}, {"what", data.Describe()}, {"batch", plan.batch}};
  run["plan_hash"] = HashToHex(HashString(text));
  run["plan"] = ParseJson(text, "plan");
  return run;
}

}  // namespace heddle
