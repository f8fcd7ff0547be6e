// Files that are read whole with a size limit or mapped into memory, files that are replaced atomically, so that no
// reader sees half of one, and logs that grow line by line.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

// The bytes of a regular file. Throws an InputError that names the path where the file is missing, unreadable, a
// directory, not a regular file, or larger than `max_bytes`. The file may be empty.
std::string ReadFile(const std::string& path, std::size_t max_bytes);

// A regular file mapped into memory: pages are read only when they are accessed. Open throws as ReadFile does. The file
// must not be truncated while it is mapped: access beyond its new end terminates the process.
class MappedFile {
 public:
  MappedFile() = default;  // no bytes
  static MappedFile Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// Appends to a file, and creates it where it does not exist. Write passes its bytes to the system in one piece before
// it returns. The constructor throws an InputError where the path cannot be written. Write throws a RunError where
// writing fails; a regular file is then restored to its previous length, so that it never ends in half a line.
class AppendFile {
 public:
  enum class Existing { kAppend, kRefuse };
  // With kRefuse, an existing file gives an object that is not open.
  explicit AppendFile(const std::string& path, Existing existing = Existing::kAppend);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;
  ~AppendFile();

  bool is_open() const { return descriptor_ >= 0; }
  const std::string& path() const { return path_; }
  void Write(std::string_view bytes);

 private:
  std::string path_;
  int descriptor_ = -1;
};

// Writes a temporary file beside `path` and renames it to `path` on Commit, so that `path` always holds either the old
// or the new contents. Without Commit, for example because of an exception, the temporary file is removed and `path`
// stays as it was. Symbolic links are followed; devices and pipes (/dev/stdout) are written directly. Throws InputError
// where the path cannot be written, RunError where writing fails (a full disk).
//
//   AtomicFile file(path);
//   file.stream() << plan;
//   file.Commit();
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  std::ostream& stream();
  void Commit();  // to be called once, at the end; flushes to the disk

 private:
  class Buffer;
  std::string path_;       // where the contents go
  std::string temporary_;  // empty when written directly, or when already renamed
  std::unique_ptr<Buffer> buffer_;
  std::unique_ptr<std::ostream> stream_;
};

void WriteFileAtomically(const std::string& path, std::string_view contents);
void WriteFileAtomically(const std::string& path, const std::function<void(std::ostream&)>& write);

}  // namespace heddle
