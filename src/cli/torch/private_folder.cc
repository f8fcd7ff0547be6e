#include "cli/torch/private_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace heddle {
namespace {

constexpr const char* kPrivatePrefix = "heddle-run-";
constexpr time_t kOldSeconds = 60;  // younger ones may not be locked yet

// -1 where somebody has it.
int LockFolder(const std::string& path) {
  int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0 || flock(folder, LOCK_EX | LOCK_NB) == 0) return folder;
  close(folder);
  return -1;
}

void RemoveOldFolders(const std::string& parent) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parent, error)) {
    struct stat status {};
    const std::string& path = entry.path();
    if (!entry.path().filename().string().starts_with(kPrivatePrefix)) continue;
    if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) continue;
    if (status.st_uid != geteuid() || status.st_mtime + kOldSeconds > time(nullptr)) continue;
    int lock = LockFolder(path);
    if (lock < 0) continue;
    std::filesystem::remove_all(path, error);
    close(lock);
  }
}

}  // namespace

std::string MemoryFolder() {
  return access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : DiskFolder();
}

std::string DiskFolder() {
  const char* given = std::getenv("TMPDIR");
  return given != nullptr ? given : "/tmp";
}

PrivateFolder::PrivateFolder(const std::string& parent) {
  RemoveOldFolders(parent);
  path_ = parent + "/" + kPrivatePrefix + "XXXXXX";
  if (mkdtemp(path_.data()) == nullptr)
    ThrowInput("{}: {}; set TMPDIR to a folder that can be written", parent, strerror(errno));
  lock_ = LockFolder(path_);
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace heddle
