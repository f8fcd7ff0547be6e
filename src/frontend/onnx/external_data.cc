#include "frontend/onnx/external_data.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>

#include "base/error.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  void Reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

int64_t ParseNumber(std::string_view key, const std::string& text, std::string_view what) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || stop != end || number < 0) {
    ThrowInput(
        "{}: external data has {} '{}', must be a non-negative decimal number; export it again",
        what, key, text);
  }
  return number;
}

void CheckLocation(const std::string& location, std::string_view what) {
  const fs::path path(location);
  bool escapes = path.is_absolute() || location.find('\0') != std::string::npos ||
                 location.find('\\') != std::string::npos;
  for (const fs::path& part : path) escapes = escapes || part == "..";
  if (location.empty() || escapes) {
    ThrowInput("{}: external data is at '{}', must be a relative path inside the model's folder",
               what, location);
  }
}

// Opens a file with openat2, without following links and without leaving the folder. Returns -1 and sets errno like
// open().
int OpenBeneath(int folder, const std::string& location) {
  open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long opened = syscall(SYS_openat2, folder, location.c_str(), &how, sizeof how);
  if (opened >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(opened);
  // On an older kernel, or in a sandbox that forbids the call, walks down folder by folder and refuses links at every
  // step.
  FileDescriptor at(dup(folder));
  const fs::path path(location);
  for (auto part = path.begin(); part != path.end(); ++part) {
    const bool last = std::next(part) == path.end();
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | (last ? 0 : O_DIRECTORY);
    const int next = openat(at.get(), part->c_str(), flags);
    if (next < 0) return -1;
    at.Reset(next);
  }
  return dup(at.get());
}

}  // namespace

ExternalData ParseExternalData(const std::vector<std::pair<std::string, std::string>>& entries,
                               std::string_view what) {
  ExternalData data;
  std::set<std::string> seen;
  for (const auto& [key, value] : entries) {
    if (!seen.insert(key).second) ThrowInput("{}: external data gives '{}' twice", what, key);
    if (key == "location") {
      data.location = value;
    } else if (key == "offset") {
      data.offset = ParseNumber(key, value, what);
    } else if (key == "length") {
      data.length = ParseNumber(key, value, what);
    } else if (key != "checksum") {
      ThrowInput(
          "{}: external data has the unknown key '{}', must be location, offset, length or "
          "checksum",
          what, key);
    }
  }
  CheckLocation(data.location, what);
  return data;
}

std::optional<std::vector<std::byte>> ReadExternalData(const fs::path& folder,
                                                       const ExternalData& data, int64_t size,
                                                       std::string_view what) {
  if (data.length && *data.length != size) {
    ThrowInput("{}: external data has {} bytes, the tensor needs {}", what, *data.length, size);
  }
  const FileDescriptor root(
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (root.get() < 0) return std::nullopt;
  const FileDescriptor file(OpenBeneath(root.get(), data.location));
  if (file.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    if (errno == ELOOP || errno == EXDEV || errno == ENOTDIR) {
      ThrowInput(
          "{}: external data '{}' is reached through a symbolic link or leaves the model's "
          "folder; put the file itself there",
          what, data.location);
    }
    ThrowInput("{}: cannot open external data '{}': {}", what, data.location, std::strerror(errno));
  }
  struct stat info = {};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    ThrowInput("{}: external data '{}' is not a regular file", what, data.location);
  }
  if (info.st_nlink != 1) {
    ThrowInput("{}: external data '{}' has {} hard links, must have one; copy the file", what,
               data.location, info.st_nlink);
  }
  if (data.offset > info.st_size || size > info.st_size - data.offset) {
    ThrowInput(
        "{}: external data '{}' has {} bytes, but the tensor begins at byte {} and has {} bytes; "
        "the file is cut short",
        what, data.location, info.st_size, data.offset, size);
  }
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = pread(file.get(), bytes.data() + done, bytes.size() - done,
                                data.offset + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      ThrowInput("{}: external data '{}' ends before the tensor does, {} of {} bytes read", what,
                 data.location, done, bytes.size());
    }
    done += static_cast<size_t>(count);
  }
  return bytes;
}

}  // namespace heddle
