// Writes checkpoints while training goes on.
//
//   CheckpointWriter writer({.folder = dir, .keep = 3, .rank = 0, .ranks = 4, .run_id = id});
//   writer.Save(step, fill, run);      // calls fill, and returns; a background thread writes the files
//   writer.Finish();                   // at the end: the last checkpoint is on the disk
//
// Each byte is read once after the copy: it is hashed and written while it is in the cache. Where training uses every
// core, the background thread takes processor time from training; `cost` includes it. The thread does not run at a
// lower priority: a rank that is killed ends only when its last thread does.
//
// Every rank writes its shard into DIR/step-N.tmp-RUN, and beside it a report that lists what the shard holds. The
// first rank waits for all reports, writes the manifest, and renames the folder. Ranks communicate through the file
// system alone, so training is not disturbed, and a rank that dies leaves a folder that no reader opens. A save that
// fails is a warning and training goes on; only a failure of the last save loses work.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "checkpoint/manifest.h"
#include "graph/tensor.h"
#include "plan/exchange.h"

namespace heddle {

// A range of the elements of a tile of a parameter, and its values in host memory.
struct SavedPart {
  std::string name;
  Shape shape;  // of the whole parameter
  Tile tile;
  Block elements;                   // of the tile's elements, in their order
  std::optional<HostTensor> index;  // of a pruned parameter: the elements that are kept
  std::array<std::optional<HostTensor>, 3>
      values;  // by StateKind, fp32; none where there is no such state
};

struct CheckpointWriterOptions {
  std::string folder;
  int64_t keep = 3;  // how many checkpoints the folder keeps; at least 1
  int rank = 0, ranks = 1;
  uint64_t run_id = 0;            // the same on all ranks, different in every run
  double deadline_seconds = 600;  // how long the first rank waits for the other ranks' shards
};

class CheckpointWriter {
 public:
  explicit CheckpointWriter(CheckpointWriterOptions options);
  ~CheckpointWriter();  // stops waiting for other ranks
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Copies what this rank saves into `parts`. They hold what the previous call left there: memory that has the right
  // size is reused, because fresh pages cost more than the copy itself.
  using FillParts = std::function<void(std::vector<SavedPart>& parts)>;

  // Waits until the previous save is done, calls `fill`, and returns while a thread writes. `run` becomes part of the
  // manifest (first rank only). Returns the seconds for which the caller was blocked. Where a save fails, the first
  // rank logs a warning; the caller reports the failure of the `last` save (failure).
  double Save(int64_t step, const FillParts& fill, const Json& run, bool last = false);
  // Calls `fill`, so that the first save finds its memory allocated.
  void Prepare(const FillParts& fill);
  void Finish();
  // After Finish, on the first rank: why the last save failed; empty where it succeeded.
  const std::string& failure() const { return failure_; }
  // Cost of the last finished save in seconds: the copy plus the processor time of the thread.
  double cost() const { return copy_seconds_ + write_seconds_; }

 private:
  void Write(int64_t step, const Json& run, bool last);
  CheckpointFile WriteShard(const std::string& path,
                            std::map<std::string, CheckpointTensor>& tensors) const;
  void Join(int64_t step, const std::string& folder, const Json& run) const;
  void Publish(int64_t step, const std::string& folder) const;
  std::string FolderOf(int64_t step) const;

  CheckpointWriterOptions options_;
  std::vector<SavedPart> parts_;  // read by the thread while it runs
  std::thread thread_;
  double copy_seconds_ = 0, write_seconds_ = 0;
  std::string failure_;
  std::atomic<bool> give_up_ = false;
};

// A lock on a checkpoint folder, held by the first rank of a run. The constructor throws InputError where another run
// holds it.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);  // creates the folder
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace heddle
