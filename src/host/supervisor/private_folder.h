// A folder that nobody else can enter, removed at the end. It is locked as long as it is used, and the system unlocks it
// when its process ends, however that happens. The next heddle of the same user removes what a killed one left.
#pragma once

#include <cstdint>
#include <string>

namespace heddle {

// Where folders for a while are made on the disk: $TMPDIR, else /tmp.
std::string DiskFolder();
// Where there is room for so many bytes: shared memory, else DiskFolder(). RunError where neither has it.
std::string FolderWithRoom(int64_t bytes);
// Removes, from shared memory and DiskFolder(), the folders that no living process of this user has.
void RemoveLeftFolders();

class PrivateFolder {
 public:
  // Throws InputError where none can be made.
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
