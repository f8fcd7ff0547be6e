// A folder of checkpoints:
//
//   DIR/step-00000400/                 complete: its manifest has the size and hash of every file
//   DIR/step-00000500.tmp-4f2a.../     being written; never read, and removed by the next run
//   DIR/latest                         the name of the last checkpoint, for people and scripts
//
// A checkpoint appears by a rename and is never changed after it. Every damage of a checkpoint is an InputError that
// names the file and the place.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace heddle {

std::string CheckpointName(int64_t step);  // "step-00000400"

// The steps of all checkpoints in ascending order, valid or not. Empty if the folder does not exist; InputError if it
// cannot be read.
std::vector<int64_t> ListCheckpoints(const std::string& folder);

std::string CheckpointPath(const std::string& folder, int64_t step);

// Reads the manifest and checks the sizes of all files.
Manifest OpenCheckpoint(const std::string& path);
// Checks the hashes of all files. Calls `progress` with the bytes done and the total.
void VerifyCheckpoint(const std::string& path, const Manifest& manifest,
                      const std::function<void(int64_t, int64_t)>& progress = nullptr);

// Checks everything that resuming from a checkpoint needs: the manifest has this step and the number of optimizer
// updates, all files match the manifest, and every piece is in its file. CheckpointReader::RequireModel checks that it
// belongs to a model. `progress` as above.
Manifest RequireSound(const std::string& folder, int64_t step,
                      const std::function<void(int64_t, int64_t)>& progress = nullptr);

struct FoundCheckpoint {
  int64_t step = 0;
  std::string path;
  Manifest manifest;
};
// The last valid checkpoint. Calls `damaged` with the error of each later one.
std::optional<FoundCheckpoint> LastGoodCheckpoint(
    const std::string& folder, const std::function<void(const std::string& why)>& damaged);

// Removes what a run that died was writing or deleting.
void RemoveLeftovers(const std::string& folder);
// Deletes all but the last `keep`, which must be at least 1.
void KeepLast(const std::string& folder, int64_t keep);

// Reads a file and returns its size and hash.
CheckpointFile Fingerprint(const std::string& path);

// Makes renamed and new files of a folder survive a power failure. Throws RunError.
void SyncFolder(const std::string& folder);

}  // namespace heddle
