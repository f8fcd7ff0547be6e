#include "checkpoint/writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/folder.h"
#include "graph/safetensors.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

double Since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

double ThreadSeconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

std::string ShardName(int64_t rank) { return fmt::format("rank-{:05}.safetensors", rank); }
// The file in which a rank reports what its shard holds, or why it has none.
std::string ReportName(int64_t rank) { return fmt::format("rank-{:05}.json", rank); }

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options)
    : options_(std::move(options)) {}

CheckpointWriter::~CheckpointWriter() {
  give_up_ = true;
  Finish();
}

void CheckpointWriter::Finish() {
  if (thread_.joinable()) thread_.join();
}

std::string CheckpointWriter::FolderOf(int64_t step) const {
  return fmt::format("{}.tmp-{}", CheckpointPath(options_.folder, step),
                     HashToHex(options_.run_id));
}

void CheckpointWriter::Prepare(const FillParts& fill) {
  Finish();
  fill(parts_);
}

double CheckpointWriter::Save(int64_t step, const FillParts& fill, const Json& run, bool last) {
  auto start = SteadyClock::now();
  Finish();
  auto copying = SteadyClock::now();
  fill(parts_);
  copy_seconds_ = Since(copying);
  failure_.clear();
  thread_ = std::thread([this, step, run, last] {
    Write(step, run, last);
    write_seconds_ = ThreadSeconds();
  });
  return Since(start);
}

CheckpointFile CheckpointWriter::WriteShard(
    const std::string& path, std::map<std::string, CheckpointTensor>& tensors) const {
  std::vector<NamedTensor> named;
  for (const SavedPart& part : parts_) {
    for (size_t k = 0; k < part.values.size(); ++k) {
      if (!part.values[k]) continue;
      named.push_back({fmt::format("{}/{}", kStateNames[k], part.name), &*part.values[k]});
    }
    if (part.index) named.push_back({fmt::format("{}/{}", kIndexName, part.name), &*part.index});
    CheckpointTensor& tensor = tensors[part.name];
    tensor.shape = part.shape;
    tensor.pieces.push_back({ShardName(options_.rank), part.tile, part.elements});
  }
  WrittenFile written = WriteSafetensors(path, named);
  return {written.bytes, HashToHex(written.hash)};
}

void CheckpointWriter::Write(int64_t step, const Json& run, bool last) {
  std::string folder = FolderOf(step);
  Json word = {{"rank", options_.rank}};
  try {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) ThrowRun("{}: {}", folder, error.message());
    std::map<std::string, CheckpointTensor> tensors;
    CheckpointFile shard = WriteShard(folder + "/" + ShardName(options_.rank), tensors);
    word["bytes"] = shard.bytes;
    word["xxh64"] = shard.hash;
    word["tensors"] = PiecesToJson(tensors);
    if (options_.rank == 0) {
      WriteFileAtomically(folder + "/" + ReportName(0), word.dump());
      Join(step, folder, run);
      return;
    }
  } catch (const std::exception& error) {
    if (options_.rank == 0) {
      failure_ = fmt::format("step {} was not saved: {}", step, error.what());
      if (!last) LogWarn("{}; training goes on", failure_);
      std::error_code ignored;
      fs::remove_all(folder, ignored);
      return;
    }
    word = {{"rank", options_.rank}, {"failed", error.what()}};
  }
  try {
    WriteFileAtomically(folder + "/" + ReportName(options_.rank), word.dump());
  } catch (const std::exception&) {
    // The first rank reports this rank as missing when its deadline passes.
  }
}

void CheckpointWriter::Join(int64_t step, const std::string& folder, const Json& run) const {
  auto start = SteadyClock::now();
  Manifest manifest;
  manifest.step = step;
  manifest.ranks = options_.ranks;
  manifest.run = run;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    std::string path = folder + "/" + ReportName(rank);
    std::error_code error;
    while (!fs::exists(path, error)) {
      if (give_up_) ThrowRun("training ended while it was being written");
      if (Since(start) > options_.deadline_seconds) {
        ThrowRun("rank {} did not write its part within {} s", rank, options_.deadline_seconds);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    Json word = ParseJson(ReadFile(path, kMaxManifestBytes), path, kMaxManifestBytes);
    if (word.contains("failed")) ThrowRun("rank {}: {}", rank, word["failed"].get<std::string>());
    manifest.files[ShardName(rank)] = {word.at("bytes").get<int64_t>(),
                                       word.at("xxh64").get<std::string>()};
    for (auto& [name, tensor] : PiecesFromJson(word.at("tensors"), path)) {
      CheckpointTensor& all = manifest.tensors[name];
      all.shape = tensor.shape;
      all.pieces.insert(all.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
    }
  }
  for (int rank = 0; rank < options_.ranks; ++rank) {
    std::error_code ignored;
    fs::remove(folder + "/" + ReportName(rank), ignored);
  }
  Json json = ToJson(manifest);
  ManifestFromJson(json, folder);  // throws where a tensor is incomplete
  WriteFileAtomically(folder + "/" + std::string(kManifestName), json.dump(1));
  SyncFolder(folder);
  Publish(step, folder);
}

void CheckpointWriter::Publish(int64_t step, const std::string& folder) const {
  std::string path = CheckpointPath(options_.folder, step);
  std::error_code error;
  if (fs::exists(path, error)) {
    // A run that resumed from an earlier checkpoint saves this step again. The existing checkpoint is kept unless it is
    // damaged.
    try {
      VerifyCheckpoint(path, OpenCheckpoint(path));
      fs::remove_all(folder, error);
      return;
    } catch (const InputError& damaged) {
      std::string aside = fmt::format("{}/damaged-{}-{}", options_.folder, CheckpointName(step),
                                      HashToHex(options_.run_id));
      fs::rename(path, aside);
      LogWarn("{}; it is now {}", damaged.what(), aside);
    }
  }
  fs::rename(folder, path);
  SyncFolder(options_.folder);
  WriteFileAtomically(options_.folder + "/latest", CheckpointName(step) + "\n");
  // Old checkpoints are removed only after the new one has been read back.
  OpenCheckpoint(path);
  KeepLast(options_.folder, options_.keep);
}

FolderLock::FolderLock(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) ThrowInput("--checkpoint {}: {}", folder, error.message());
  std::string path = folder + "/.lock";
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) ThrowInput("--checkpoint {}: {}", folder, std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    close(descriptor_);
    ThrowInput("--checkpoint {}: another run writes there: use another folder", folder);
  }
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace heddle
