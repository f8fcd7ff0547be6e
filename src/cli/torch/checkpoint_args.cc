#include "cli/torch/checkpoint_args.h"

#include "base/error.h"
#include "cli/option_types.h"
#include "cli/quantity_args.h"
#include "cli/shared_options.h"

namespace heddle {

void CheckpointArgs::Add(CLI::App& command) {
  command.add_option("--checkpoint", options.folder,
                     "folder to save to while training goes on, a folder per step");
  AddCheckpointEveryOption(command, options.every, " (default: as --mtbf advises)");
  command.add_option("--keep", options.keep, "checkpoints to keep, the last ones")
      ->transform(IntegerIn(1, 1 << 20))
      ->capture_default_str();
  AddMtbfOption(command, mtbf,
                "as 30min, 12h or 7d (default 3h): with what a save costs it gives the interval");
  command.add_flag("--resume", options.resume,
                   "go on from the last good checkpoint; from the start where there is none");
  AddOverrideFlag(command, options.override_settings,
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

}  // namespace heddle
