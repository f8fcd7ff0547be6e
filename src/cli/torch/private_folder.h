// A folder that nobody else can enter, removed at the end. It is locked as long as it is used, so that what a killed program
// left is known, and goes with the next.
#pragma once

#include <string>

namespace heddle {

// Where folders for a while are made: in memory where that can be, or on the disk.
std::string MemoryFolder();
std::string DiskFolder();

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
