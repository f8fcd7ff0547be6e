#include "checkpoint/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/reader.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
const Json::json_pointer kUpdatesPointer("/state/updates");

// nullopt for other names, such as those of leftovers.
std::optional<int64_t> StepOf(const std::string& name) {
  if (name.rfind(kPrefix, 0) != 0) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  auto [stopped, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || stopped != end || step < 0 || name != CheckpointName(step)) {
    return std::nullopt;
  }
  return step;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  if (!fs::exists(folder, error) && !error) return names;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) ThrowInput("{}: {}", folder, error.message());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string CheckpointName(int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

std::string CheckpointPath(const std::string& folder, int64_t step) {
  return folder + "/" + CheckpointName(step);
}

std::vector<int64_t> ListCheckpoints(const std::string& folder) {
  std::vector<int64_t> steps;
  for (const std::string& name : NamesIn(folder)) {
    if (std::optional<int64_t> step = StepOf(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

Manifest OpenCheckpoint(const std::string& path) {
  std::string file = path + "/" + std::string(kManifestName);
  Manifest manifest =
      ManifestFromJson(ParseJson(ReadFile(file, kMaxManifestBytes), file, kMaxManifestBytes), file);
  for (const auto& [name, want] : manifest.files) {
    std::error_code error;
    uintmax_t bytes = fs::file_size(path + "/" + name, error);
    if (error) ThrowInput("{}/{}: {}", path, name, error.message());
    if (bytes != static_cast<uintmax_t>(want.bytes)) {
      ThrowInput("{}/{}: {} bytes, the manifest says {}", path, name, bytes, want.bytes);
    }
  }
  return manifest;
}

CheckpointFile Fingerprint(const std::string& path) {
  MappedFile file = MappedFile::Open(path);
  return {static_cast<int64_t>(file.bytes().size()),
          HashToHex(HashBytes(file.bytes().data(), file.bytes().size()))};
}

void VerifyCheckpoint(const std::string& path, const Manifest& manifest,
                      const std::function<void(int64_t, int64_t)>& progress) {
  int64_t done = 0, all = 0;
  for (const auto& [name, file] : manifest.files) all += file.bytes;
  for (const auto& [name, want] : manifest.files) {
    CheckpointFile got = Fingerprint(path + "/" + name);
    if (got != want) {
      ThrowInput("{}/{}: its hash is {}, but the manifest says {}: it was changed or damaged", path,
                 name, got.hash, want.hash);
    }
    done += want.bytes;
    if (progress) progress(done, all);
  }
}

Manifest RequireSound(const std::string& folder, int64_t step,
                      const std::function<void(int64_t, int64_t)>& progress) {
  std::string path = CheckpointPath(folder, step);
  Manifest manifest = OpenCheckpoint(path);
  if (manifest.step != step) ThrowInput("{}: its manifest is for step {}", path, manifest.step);
  // `run` is untrusted input: `contains` accepts any JSON.
  const Json& run = manifest.run;
  if (!run.contains(kUpdatesPointer) || !run.at(kUpdatesPointer).is_number_integer() ||
      run.at(kUpdatesPointer) < 0) {
    ThrowInput("{}/{}: run: state: updates: expected the number of updates of the optimizer", path,
               kManifestName);
  }
  VerifyCheckpoint(path, manifest, progress);
  CheckpointReader(path, manifest).RequirePieces();
  return manifest;
}

std::optional<FoundCheckpoint> LastGoodCheckpoint(
    const std::string& folder, const std::function<void(const std::string& why)>& damaged) {
  std::vector<int64_t> steps = ListCheckpoints(folder);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    FoundCheckpoint found{*step, CheckpointPath(folder, *step), {}};
    try {
      found.manifest = RequireSound(folder, *step);
      return found;
    } catch (const InputError& error) {
      damaged(error.what());
    }
  }
  return std::nullopt;
}

void RemoveLeftovers(const std::string& folder) {
  for (const std::string& name : NamesIn(folder)) {
    bool ours = name.rfind(kPrefix, 0) == 0 &&
                (name.find(".tmp-") != std::string::npos || name.find(".old") != std::string::npos);
    std::error_code error;
    if (ours) fs::remove_all(folder + "/" + name, error);
  }
}

void KeepLast(const std::string& folder, int64_t keep) {
  std::vector<int64_t> steps = ListCheckpoints(folder);
  while (static_cast<int64_t>(steps.size()) > keep) {
    std::string path = CheckpointPath(folder, steps.front());
    steps.erase(steps.begin());
    // A rename hides the checkpoint in one step, so that no other process sees a part of it.
    std::error_code error;
    fs::rename(path, path + ".old", error);
    fs::remove_all(path + ".old", error);
  }
}

void SyncFolder(const std::string& folder) {
  int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool synced = descriptor >= 0 && fsync(descriptor) == 0;
  int why = errno;
  if (descriptor >= 0) close(descriptor);
  if (!synced) ThrowRun("{}: {}", folder, std::strerror(why));
}

}  // namespace heddle
