#include "host/supervisor/private_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/units.h"

namespace heddle {
namespace {

constexpr const char* kPrivatePrefix = "heddle-run-";
constexpr const char* kSharedMemory = "/dev/shm";

// A descriptor that holds the lock of a folder; -1 where the folder does not exist or is locked by another process.
int LockFolder(const std::string& path) {
  int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0 || flock(folder, LOCK_EX | LOCK_NB) == 0) return folder;
  close(folder);
  return -1;
}

// Whether the open folder `folder` is still the one at `path`: it may have been removed.
bool IsAt(int folder, const std::string& path) {
  struct stat open_one {
  }, there{};
  return fstat(folder, &open_one) == 0 && lstat(path.c_str(), &there) == 0 &&
         open_one.st_ino == there.st_ino && open_one.st_dev == there.st_dev;
}

void RemoveLeftFoldersIn(const std::string& parent) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parent, error)) {
    struct stat status {};
    const std::string& path = entry.path();
    if (!entry.path().filename().string().starts_with(kPrivatePrefix)) continue;
    if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) continue;
    if (status.st_uid != geteuid()) continue;
    int lock = LockFolder(path);
    if (lock < 0) continue;
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
    close(lock);
  }
}

int64_t FreeBytes(const std::string& folder) {
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0) return 0;
  return static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
}

}  // namespace

std::string DiskFolder() {
  const char* given = std::getenv("TMPDIR");
  return given != nullptr && *given != '\0' ? given : "/tmp";
}

std::string FolderWithRoom(int64_t bytes) {
  RemoveLeftFolders();
  std::string disk = DiskFolder();
  if (access(kSharedMemory, W_OK | X_OK) == 0 && FreeBytes(kSharedMemory) >= bytes)
    return kSharedMemory;
  if (access(disk.c_str(), W_OK | X_OK) == 0 && FreeBytes(disk) < bytes) {
    ThrowRun(
        "{} needed to start, but {} has {} free and {} has {}; set TMPDIR to a folder with room",
        FormatBytes({bytes}), kSharedMemory, FormatBytes({FreeBytes(kSharedMemory)}), disk,
        FormatBytes({FreeBytes(disk)}));
  }
  return disk;
}

void RemoveLeftFolders() {
  RemoveLeftFoldersIn(kSharedMemory);
  RemoveLeftFoldersIn(DiskFolder());
}

// Before a new folder is locked, another process may take it for an abandoned one and remove it. Then the loop makes
// another folder.
PrivateFolder::PrivateFolder(const std::string& parent) {
  RemoveLeftFolders();
  RemoveLeftFoldersIn(parent);
  for (int attempt = 0; attempt < 100; ++attempt) {
    path_ = parent + "/" + kPrivatePrefix + "XXXXXX";
    if (mkdtemp(path_.data()) == nullptr)
      ThrowInput("{}: {}; set TMPDIR to a folder that can be written", parent, strerror(errno));
    lock_ = LockFolder(path_);
    if (lock_ >= 0 && IsAt(lock_, path_)) return;
    if (lock_ >= 0) close(lock_);
  }
  ThrowRun("{}: folders that are made there cannot be locked; set TMPDIR to another", parent);
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace heddle
