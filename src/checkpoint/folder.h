// A folder of checkpoints:
//
//   DIR/step-00000400/                 whole: its manifest names every file, with size and hash
//   DIR/step-00000500.tmp-4f2a.../     being written; never read, and removed by the next run
//   DIR/latest                         the name of the last one, for people and scripts
//
// A checkpoint is there from one rename on and is never changed after it. Everything that can be wrong with one found
// here is an InputError that names file and place.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace heddle {

std::string CheckpointName(int64_t step);  // "step-00000400"

// Steps of the checkpoints that are there, ascending, whole or not. Nothing where there is no such folder; InputError
// where it cannot be read.
std::vector<int64_t> ListCheckpoints(const std::string& folder);

std::string CheckpointPath(const std::string& folder, int64_t step);

// The manifest, and the sizes of all files as it says.
Manifest OpenCheckpoint(const std::string& path);
// Every byte against its hash. `progress` is called with bytes done and bytes in all.
void VerifyCheckpoint(const std::string& path, const Manifest& manifest,
                      const std::function<void(int64_t, int64_t)>& progress = nullptr);

// All that going on from a checkpoint of a folder needs: its manifest is of that step and says what the optimizer has
// done, every file is as the manifest says, and every piece is in its file. Whether it is one of the model at hand is for
// CheckpointReader::RequireModel. `progress` as above.
Manifest RequireSound(const std::string& folder, int64_t step,
                      const std::function<void(int64_t, int64_t)>& progress = nullptr);

struct FoundCheckpoint {
  int64_t step = 0;
  std::string path;
  Manifest manifest;
};
// The last one that is sound. `damaged` is called with the error of each that was passed over.
std::optional<FoundCheckpoint> LastGoodCheckpoint(
    const std::string& folder, const std::function<void(const std::string& why)>& damaged);

// What a run that died was writing, or deleting.
void RemoveLeftovers(const std::string& folder);
// Deletes all but the last `keep`, which must be at least 1.
void KeepLast(const std::string& folder, int64_t keep);

// The size and hash of a file, read back.
CheckpointFile Fingerprint(const std::string& path);

// What was renamed or made in a folder outlives a power failure. RunError.
void SyncFolder(const std::string& folder);

}  // namespace heddle
