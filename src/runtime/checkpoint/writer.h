// Saves what a device holds while training goes on.
//
//   CheckpointWriter writer({.folder = dir, .keep = 3, .rank = 0, .ranks = 4, .run_id = id});
//   writer.Save(step, parts, run);     // copies, and returns; a thread of its own does the rest
//   writer.Finish();                   // at the end: the last one is on the disk
//
// Each byte is read once after the copy: hashed and written while it is in the cache. Where training uses every core the
// thread takes its processor time from training, and `cost` counts it. It has no lower priority: a rank that is killed
// ends only when its last thread does.
//
// Every rank writes its shard into DIR/step-N.tmp-RUN and says there what is in it; the first rank waits for all of
// them, writes the manifest, and renames the folder. Ranks meet in the file system alone: training is not disturbed, and
// whoever dies leaves a folder that nobody reads. A save that fails is a warning, and training goes on; only where the
// last one fails is work lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "checkpoint/manifest.h"
#include "graph/tensor.h"
#include "runtime/checkpoint/state.h"

namespace heddle {

struct CheckpointWriterOptions {
  std::string folder;
  int64_t keep = 3;  // the last so many; at least 1
  int rank = 0, ranks = 1;
  uint64_t run_id = 0;            // the same on all ranks, another in every run
  double deadline_seconds = 600;  // for the other ranks' shards
};

class CheckpointWriter {
 public:
  explicit CheckpointWriter(CheckpointWriterOptions options);
  ~CheckpointWriter();  // gives up what is being written
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits for the save before, if that is not done. `run` is the manifest's, of the first rank. Returns the seconds it
  // took of the caller's time. Where a save fails the first rank warns, unless it is the `last` one: that is for the
  // caller to report (failure).
  double Save(int64_t step, const std::vector<StatePart>& parts, const Json& run,
              bool last = false);
  // Takes the memory that saves copy to.
  void Prepare(const std::vector<StatePart>& parts);
  void Finish();
  // After Finish, on the first rank: why the last save failed; empty: it did not.
  const std::string& failure() const { return failure_; }
  // Of the last save that was finished: the copy, and the processor time of the thread. Seconds.
  double cost() const { return copy_seconds_ + write_seconds_; }

 private:
  struct Kept {
    std::string name;
    Shape shape;
    Tile tile;
    Block elements;
    std::optional<HostTensor> index;
    std::array<std::optional<HostTensor>, 3> values;  // by StateKind
  };
  void Copy(const std::vector<StatePart>& parts);
  void Write(int64_t step, const Json& run, bool last);
  CheckpointFile WriteShard(const std::string& path,
                            std::map<std::string, CheckpointTensor>& tensors) const;
  void Join(int64_t step, const std::string& folder, const Json& run) const;
  void Publish(int64_t step, const std::string& folder) const;
  std::string FolderOf(int64_t step) const;

  CheckpointWriterOptions options_;
  std::vector<Kept> kept_;
  std::thread thread_;
  double copy_seconds_ = 0, write_seconds_ = 0;
  std::string failure_;
  std::atomic<bool> give_up_ = false;
};

// Held by the first rank of a run: no other run writes there. InputError where one does.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);  // makes the folder
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace heddle
