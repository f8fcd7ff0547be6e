#include "cli/torch/checkpoint_args.h"

#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "plan/plan_file.h"

namespace heddle {

void CheckpointArgs::Add(CLI::App& command) {
  command.add_option("--checkpoint", options.folder,
                     "folder to save to while training goes on, a folder per step");
  command
      .add_option("--checkpoint-every", options.every,
                  "steps from one checkpoint to the next (default: as --mtbf advises)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command.add_option("--keep", options.keep, "checkpoints to keep, the last ones")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command.add_option("--mtbf", mtbf,
                     "mean time between failures, as 30m, 12h or 7d (default 3h): with what a save "
                     "costs it gives the interval");
  command.add_flag("--resume", options.resume,
                   "go on from the last good checkpoint; from the start where there is none");
}

CheckpointOptions CheckpointArgs::Resolve() const {
  CheckpointOptions resolved = options;
  if (!mtbf.empty()) resolved.mtbf = ParseDuration(mtbf, "--mtbf");
  if (resolved.folder.empty() && (resolved.every > 0 || !mtbf.empty())) {
    ThrowInput("{}: give the folder with --checkpoint",
               resolved.every > 0 ? "--checkpoint-every" : "--mtbf");
  }
  RequireUsable(resolved);
  return resolved;
}

double ParseDuration(const std::string& text, std::string_view flag) {
  size_t used = 0;
  double number = NAN;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
  }
  while (used < text.size() && text[used] == ' ') ++used;
  std::string unit = text.substr(used);
  double scale = unit.empty() || unit == "s" ? 1
                 : unit == "m"               ? 60
                 : unit == "h"               ? 3600
                 : unit == "d"               ? 86400
                                             : NAN;
  double seconds = number * scale;
  if (!(seconds > 0 && seconds < 1e12)) {
    ThrowInput("{} {}: expected a time such as 90s, 30m, 12h or 7d", flag, text);
  }
  return seconds;
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
