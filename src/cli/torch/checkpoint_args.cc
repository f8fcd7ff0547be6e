#include "cli/torch/checkpoint_args.h"

#include "base/error.h"
#include "cli/option_types.h"
#include "cli/quantity_args.h"
#include "cli/shared_options.h"

namespace heddle {

void CheckpointArgs::Add(CLI::App& command) {
  command.add_option("--checkpoint", options.folder,
                     "folder for checkpoints, which are saved while training continues");
  AddCheckpointEveryOption(command, options.every, " (default: computed from --mtbf)");
  command
      .add_option("--keep", options.keep, "number of checkpoints to keep; older ones are deleted")
      ->transform(IntegerIn(1, 1 << 20))
      ->capture_default_str();
  AddMtbfOption(
      command, mtbf,
      "such as 30min, 12h or 7d (default 3h); together with the cost of a save it gives the "
      "interval");
  command.add_flag("--resume", options.resume,
                   "resume from the last valid checkpoint, or start if there is none");
  AddOverrideFlag(
      command, options.override_settings,
      "with --resume: resume even if the model, data, seed, optimizer or another setting "
      "that changes the result differs from the checkpoint");
}

CheckpointOptions CheckpointArgs::Resolve() const {
  CheckpointOptions resolved = options;
  if (!mtbf.empty()) resolved.mtbf = ParseSeconds("--mtbf", mtbf);
  if (resolved.folder.empty() && (resolved.every > 0 || !mtbf.empty())) {
    ThrowInput("{}: give the folder with --checkpoint",
               resolved.every > 0 ? "--checkpoint-every" : "--mtbf");
  }
  if (resolved.override_settings && !resolved.resume)
    ThrowInput("--override: it needs --resume, which is not given");
  RequireUsable(resolved);
  return resolved;
}

}  // namespace heddle
