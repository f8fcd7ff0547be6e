// A temporary folder that no other user can enter. It is locked while it is in use; the kernel releases the lock when
// the process ends, even when it is killed. The next heddle of the same user removes unlocked folders.
#pragma once

#include <cstdint>
#include <string>

namespace heddle {

// The folder for temporary files on the disk: $TMPDIR, else /tmp.
std::string DiskFolder();
// Shared memory where it has `bytes` free, else DiskFolder(). Throws RunError where neither has.
std::string FolderWithRoom(int64_t bytes);
// Removes folders that killed processes of this user left in shared memory and in DiskFolder().
void RemoveLeftFolders();

class PrivateFolder {
 public:
  // Throws InputError where no folder can be made in `parent`.
  explicit PrivateFolder(const std::string& parent);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const char* file) const { return path_ + "/" + file; }

 private:
  std::string path_;
  int lock_ = -1;
};

}  // namespace heddle
