// Reading files whole with a limit or mapped into memory, writing them so that a reader never sees half of
// one, and logs that grow line by line.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

// The bytes of a regular file. Throws InputError naming the path when it is missing, unreadable, a
// directory, not a regular file, or larger than `max_bytes`. An empty file is fine.
std::string ReadFile(const std::string& path, std::size_t max_bytes);

// A regular file mapped into memory: nothing is read before it is looked at. Throws as ReadFile does. The file
// must not be cut shorter while it is mapped: touching what is gone ends the process.
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

// Appends to a file, which it makes where there is none; what Write is given has left the process when it
// returns, in one piece. Throws InputError when the path cannot be written, RunError when writing fails: a regular
// file then is as it was before, so that no half of a line is left.
class AppendFile {
 public:
  enum class Existing { kAppend, kRefuse };
  // With kRefuse a file that is there already gives an object that is not open.
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

// Writes beside `path` and renames over it on Commit, so that `path` holds either the old contents
// or the new; without Commit (an exception, say) the temporary file is removed and `path` is as it
// was. A symbolic link is followed; a device or pipe (/dev/stdout) is written directly. Throws
// InputError when the path cannot be written, RunError when writing fails (a full disk).
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
  void Commit();  // once, at the end; flushes to the disk

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
