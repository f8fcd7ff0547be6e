#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <streambuf>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/units.h"

namespace heddle {
namespace {

// An open file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int get() const { return value_; }
  bool Close() {
    const int value = std::exchange(value_, -1);
    return value < 0 || close(value) == 0;
  }

 private:
  int value_;
};

std::string FormatSize(std::size_t size) { return FormatBytes({static_cast<std::int64_t>(size)}); }

std::string Folder(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The target of a symbolic link. Returns the path itself where it is no link or where the target does not exist yet.
std::string Resolve(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string result(resolved);
  std::free(resolved);
  return result;
}

[[noreturn]] void RefuseToWrite(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    ThrowInput("{}: no such folder to write into; create {}", path, Folder(path));
  }
  if (error == EACCES || error == EPERM || error == EROFS) {
    ThrowInput("{}: cannot be written ({}); choose another path", path, std::strerror(error));
  }
  if (error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO || error == EMFILE ||
      error == ENFILE) {
    ThrowRun("{}: cannot write: {}", path, std::strerror(error));
  }
  if (error == ENXIO) ThrowInput("{}: is a pipe that nobody reads; give the name of a file", path);
  ThrowInput("{}: cannot be written: {}", path, std::strerror(error));
}

// Opens a regular file and sets `size` to its length.
Descriptor OpenToRead(const std::string& path, std::size_t* size) {
  // The system would cut a path at a zero byte.
  if (path.empty()) ThrowInput("the name of a file to read is empty; give a path");
  if (path.find('\0') != path.npos) ThrowInput("{}: not a path", path);
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) ThrowInput("{}: no such file; check the path", path);
    ThrowInput("{}: cannot be read: {}", path, std::strerror(errno));
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) {
    ThrowInput("{}: cannot be read: {}", path, std::strerror(errno));
  }
  if (S_ISDIR(status.st_mode)) ThrowInput("{}: is a directory; give a file in it", path);
  if (!S_ISREG(status.st_mode)) {
    ThrowInput("{}: is not a regular file; save the contents to a file first", path);
  }
  *size = static_cast<std::size_t>(status.st_size);
  return file;
}

}  // namespace

std::string ReadFile(const std::string& path, std::size_t max_bytes) {
  std::size_t size = 0;
  const Descriptor file = OpenToRead(path, &size);
  if (size > max_bytes) {
    ThrowInput("{}: {} is larger than the limit of {}; is it the right file?", path,
               FormatSize(size), FormatSize(max_bytes));
  }
  std::string contents(size, '\0');
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t got = read(file.get(), contents.data() + filled, size - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) ThrowInput("{}: cannot be read: {}", path, std::strerror(errno));
    if (got == 0) break;  // the file became shorter while it was read
    filled += static_cast<std::size_t>(got);
  }
  contents.resize(filled);
  return contents;
}

MappedFile MappedFile::Open(const std::string& path) {
  std::size_t size = 0;
  const Descriptor descriptor = OpenToRead(path, &size);
  MappedFile file;
  if (size == 0) return file;  // mmap fails for empty files
  void* mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (mapping == MAP_FAILED) ThrowInput("{}: cannot be mapped: {}", path, std::strerror(errno));
  file.bytes_ = {static_cast<const std::byte*>(mapping), size};
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

AppendFile::AppendFile(const std::string& path, Existing existing) : path_(path) {
  if (path.empty()) ThrowInput("the name of a file to write is empty; give a path");
  if (path.find('\0') != path.npos) ThrowInput("{}: not a path", path);
  const int exclusive = existing == Existing::kRefuse ? O_EXCL : 0;
  // O_NONBLOCK: a pipe that nobody reads is refused instead of waited for.
  descriptor_ =
      open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | exclusive, 0666);
  if (descriptor_ >= 0)
    static_cast<void>(fcntl(descriptor_, F_SETFL, O_APPEND));  // writes block from here on
  if (descriptor_ >= 0 || (exclusive != 0 && errno == EEXIST)) return;
  if (errno == EISDIR) ThrowInput("{}: is a directory; give the name of a file in it", path);
  RefuseToWrite(path, errno);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void AppendFile::Write(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const int why = errno;
      struct stat status {};
      const bool regular = fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
      const off_t before = status.st_size - static_cast<off_t>(done);
      const bool torn = regular && done > 0 && ftruncate(descriptor_, before) != 0;
      ThrowRun("{}: cannot write: {}{}", path_, std::strerror(why),
               torn ? "; its last line is cut short" : "");
    }
    done += static_cast<std::size_t>(put);
  }
}

// A stream buffer that writes to a descriptor and keeps the first error.
class AtomicFile::Buffer : public std::streambuf {
 public:
  explicit Buffer(int descriptor) : file_(descriptor), bytes_(64 << 10) {
    setp(bytes_.data(), bytes_.data() + bytes_.size());
  }

  int descriptor() const { return file_.get(); }
  int error() const { return error_; }
  bool Close() { return file_.Close(); }

 protected:
  int overflow(int c) override {
    if (sync() != 0) return traits_type::eof();
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    *pptr() = traits_type::to_char_type(c);
    pbump(1);
    return c;
  }
  int sync() override {
    Put(pbase(), pptr());
    setp(bytes_.data(), bytes_.data() + bytes_.size());
    return error_ == 0 ? 0 : -1;
  }
  // Output larger than the buffer is written directly.
  std::streamsize xsputn(const char* from, std::streamsize count) override {
    if (count < static_cast<std::streamsize>(bytes_.size()))
      return std::streambuf::xsputn(from, count);
    if (sync() != 0) return 0;
    return Put(from, from + count) ? count : 0;
  }

 private:
  bool Put(const char* at, const char* end) {
    while (error_ == 0 && at < end) {
      const ssize_t put = write(file_.get(), at, static_cast<std::size_t>(end - at));
      if (put < 0 && errno != EINTR) error_ = errno;
      if (put > 0) at += put;
    }
    return error_ == 0;
  }

  Descriptor file_;
  std::vector<char> bytes_;
  int error_ = 0;
};

AtomicFile::AtomicFile(const std::string& path) : path_(Resolve(path)) {
  if (path.empty()) ThrowInput("the name of a file to write is empty; give a path");
  if (path.find('\0') != path.npos) ThrowInput("{}: not a path", path);
  if (path.back() == '/') ThrowInput("{}: is a directory; give the name of a file in it", path);
  struct stat status {};
  const bool exists = stat(path_.c_str(), &status) == 0;
  if (!exists && errno == ELOOP) RefuseToWrite(path, errno);
  if (exists && S_ISDIR(status.st_mode)) {
    ThrowInput("{}: is a directory; give the name of a file in it", path);
  }
  int descriptor = -1;
  if (exists && !S_ISREG(status.st_mode)) {
    // O_NONBLOCK: a pipe that nobody reads is refused instead of waited for.
    descriptor = open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    // Writes block from here on.
    if (descriptor >= 0) static_cast<void>(fcntl(descriptor, F_SETFL, 0));
  } else {
    if (exists && access(path_.c_str(), W_OK) != 0) RefuseToWrite(path, errno);
    static std::atomic<int> counter = 0;
    temporary_ = fmt::format("{}.tmp.{}.{}", path_, getpid(), counter++);
    descriptor = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 && exists) {
      static_cast<void>(fchmod(descriptor, status.st_mode & 07777));  // best effort
    }
  }
  if (descriptor < 0) {
    temporary_.clear();
    RefuseToWrite(path, errno);
  }
  buffer_ = std::make_unique<Buffer>(descriptor);
  stream_ = std::make_unique<std::ostream>(buffer_.get());
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

std::ostream& AtomicFile::stream() { return *stream_; }

void AtomicFile::Commit() {
  HEDDLE_CHECK(buffer_->descriptor() >= 0, "Commit twice on {}", path_);
  stream_->flush();
  if (buffer_->error() != 0) RefuseToWrite(path_, buffer_->error());
  if (!stream_->good()) ThrowRun("{}: cannot write: the stream failed", path_);
  if (!temporary_.empty() && fsync(buffer_->descriptor()) != 0) RefuseToWrite(path_, errno);
  if (!buffer_->Close()) RefuseToWrite(path_, errno);
  if (temporary_.empty()) return;
  if (rename(temporary_.c_str(), path_.c_str()) != 0) RefuseToWrite(path_, errno);
  temporary_.clear();
  // The rename is on the disk only once the folder is. Some file systems cannot synchronise folders, so errors are
  // ignored.
  const Descriptor folder(open(Folder(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) static_cast<void>(fsync(folder.get()));
}

void WriteFileAtomically(const std::string& path, std::string_view contents) {
  WriteFileAtomically(path, [&](std::ostream& out) {
    out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  });
}

void WriteFileAtomically(const std::string& path, const std::function<void(std::ostream&)>& write) {
  AtomicFile file(path);
  write(file.stream());
  file.Commit();
}

}  // namespace heddle
