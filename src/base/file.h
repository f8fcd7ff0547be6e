// Reading whole files with a limit, and writing them so that a reader never sees half of one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

namespace heddle {

// The bytes of a regular file. Throws InputError naming the path when it is missing, unreadable, a
// directory, not a regular file, or larger than `max_bytes`. An empty file is fine.
std::string ReadFile(const std::string& path, std::size_t max_bytes);

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
