#include "runtime/checkpoint/writer.h"

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
// What a shard holds, or why there is none.
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

// Into memory that is there from the time before: fresh pages would cost more than the copy.
void CheckpointWriter::Copy(const std::vector<StatePart>& parts) {
  kept_.resize(parts.size());
  for (size_t p = 0; p < parts.size(); ++p) {
    const StatePart& part = parts[p];
    Kept& kept = kept_[p];
    kept.name = part.name;
    kept.shape = part.shape;
    kept.tile = part.tile;
    kept.elements = part.elements;
    kept.index.reset();
    if (part.index.defined()) {
      bool wide = part.index.scalar_type() == at::kLong;
      kept.index.emplace(wide ? DType::kI64 : DType::kI32, Shape{part.index.numel()});
      at::from_blob(kept.index->data.data(), {part.index.numel()}, part.index.scalar_type())
          .copy_(part.index);
    }
    for (size_t k = 0; k < kept.values.size(); ++k) {
      std::optional<HostTensor>& to = kept.values[k];
      if (!part.values[k].defined()) {
        to.reset();
        continue;
      }
      Shape shape = {part.values[k].numel()};
      if (!to || to->shape != shape) to.emplace(DType::kF32, shape);
      at::from_blob(to->data.data(), shape, at::kFloat).copy_(part.values[k]);
    }
  }
}

void CheckpointWriter::Prepare(const std::vector<StatePart>& parts) {
  Finish();
  Copy(parts);
}

double CheckpointWriter::Save(int64_t step, const std::vector<StatePart>& parts, const Json& run,
                              bool last) {
  auto start = SteadyClock::now();
  Finish();
  auto copying = SteadyClock::now();
  Copy(parts);
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
  for (const Kept& kept : kept_) {
    for (size_t k = 0; k < kept.values.size(); ++k) {
      if (!kept.values[k]) continue;
      named.push_back({fmt::format("{}/{}", kStateNames[k], kept.name), &*kept.values[k]});
    }
    if (kept.index) named.push_back({fmt::format("{}/{}", kIndexName, kept.name), &*kept.index});
    CheckpointTensor& tensor = tensors[kept.name];
    tensor.shape = kept.shape;
    tensor.pieces.push_back({ShardName(options_.rank), kept.tile, kept.elements});
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
    // The first rank will wait in vain and say so.
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
  ManifestFromJson(json, folder);  // throws where something is not there whole
  WriteFileAtomically(folder + "/" + std::string(kManifestName), json.dump(1));
  SyncFolder(folder);
  Publish(step, folder);
}

void CheckpointWriter::Publish(int64_t step, const std::string& folder) const {
  std::string path = CheckpointPath(options_.folder, step);
  std::error_code error;
  if (fs::exists(path, error)) {
    // A run that went on from an earlier one comes here again. What is there stays, unless it is damaged.
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
  // Old ones go only when the new one is there whole.
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
