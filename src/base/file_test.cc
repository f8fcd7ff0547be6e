#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string name = testing::TempDir() + "heddle_file_test_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~FileTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::size_t FileCount() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string ReadError(const std::string& path, std::size_t limit = 100) const {
    return ErrorOf([&] { ReadFile(path, limit); });
  }
  std::string WriteError(const std::string& path) const {
    return ErrorOf([&] { WriteFileAtomically(path, "x"); });
  }

  std::string folder_;

  template <class Function>
  static std::string ErrorOf(Function function) {
    try {
      function();
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(FileTest, ReadsWhatWasWritten) {
  const std::string contents("a\0b\r\n\xff", 6);
  WriteFileAtomically(Path("a"), contents);
  EXPECT_EQ(ReadFile(Path("a"), 6), contents);
  WriteFileAtomically(Path("a"), "");
  EXPECT_EQ(ReadFile(Path("a"), 0), "");
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(FileTest, MapsWhatWasWritten) {
  WriteFileAtomically(Path("a"), "abc");
  WriteFileAtomically(Path("empty"), "");
  MappedFile file = MappedFile::Open(Path("a"));
  MappedFile moved = std::move(file);
  ASSERT_EQ(moved.bytes().size(), 3u);
  EXPECT_EQ(moved.bytes()[2], std::byte{'c'});
  EXPECT_TRUE(MappedFile::Open(Path("empty")).bytes().empty());
  EXPECT_NE(ErrorOf([&] { MappedFile::Open(folder_); }).find("is a directory"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { MappedFile::Open(Path("none")); }).find("no such file"),
            std::string::npos);
}

TEST_F(FileTest, AppendsAtOnce) {
  AppendFile first(Path("log"));
  first.Write("one\n");
  EXPECT_EQ(ReadFile(Path("log"), 100), "one\n");
  AppendFile(Path("log")).Write("two\n");
  EXPECT_EQ(ReadFile(Path("log"), 100), "one\ntwo\n");
  EXPECT_FALSE(AppendFile(Path("log"), AppendFile::Existing::kRefuse).is_open());
  EXPECT_TRUE(AppendFile(Path("new"), AppendFile::Existing::kRefuse).is_open());
}

TEST_F(FileTest, RefusesToAppendWithAReason) {
  EXPECT_NE(ErrorOf([&] { AppendFile{folder_}; }).find("is a directory"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { AppendFile(Path("none/log")); }).find("no such folder"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] { AppendFile(""); }).find("is empty"), std::string::npos);
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  EXPECT_THROW(AppendFile("/dev/full").Write("x"), RunError);
}

TEST_F(FileTest, RefusesToReadWithAReason) {
  const std::string missing = Path("none");
  EXPECT_EQ(ReadError(missing), missing + ": no such file; check the path");
  EXPECT_EQ(ReadError(folder_), folder_ + ": is a directory; give a file in it");
  EXPECT_EQ(ReadError(""), "the name of a file to read is empty; give a path");
  WriteFileAtomically(Path("a"), std::string(101, 'x'));
  EXPECT_EQ(ReadError(Path("a")),
            Path("a") + ": 101 B is larger than the limit of 100 B; is it the right file?");
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_NE(ReadError(Path("pipe")).find("is not a regular file"), std::string::npos);
  EXPECT_NE(ReadError("/dev/zero").find("is not a regular file"), std::string::npos);
}

TEST_F(FileTest, RefusesToWriteWithAReason) {
  EXPECT_EQ(WriteError(folder_), folder_ + ": is a directory; give the name of a file in it");
  EXPECT_EQ(WriteError(Path("no/x")),
            Path("no/x") + ": no such folder to write into; create " + Path("no"));
  EXPECT_NE(WriteError(""), "no error");
  EXPECT_NE(WriteError(Path("new/")), "no error");
  EXPECT_EQ(FileCount(), 0u);
}

TEST_F(FileTest, AnExceptionLeavesTheOldContents) {
  WriteFileAtomically(Path("a"), "old");
  EXPECT_THROW(WriteFileAtomically(Path("a"),
                                   [](std::ostream& out) {
                                     out << std::string(1 << 20, 'n');
                                     throw std::runtime_error("stop");
                                   }),
               std::runtime_error);
  EXPECT_EQ(ReadFile(Path("a"), 10), "old");
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(FileTest, WithoutCommitNothingHappens) {
  {
    AtomicFile file(Path("a"));
    file.stream() << "text" << std::flush;
    EXPECT_EQ(FileCount(), 1u);
  }
  EXPECT_EQ(FileCount(), 0u);
}

TEST_F(FileTest, StreamsMoreThanItsBuffer) {
  WriteFileAtomically(Path("a"), [](std::ostream& out) {
    for (int i = 0; i < 100000; ++i) out << i << '\n';
  });
  const std::string contents = ReadFile(Path("a"), 1 << 20);
  EXPECT_EQ(contents.size(), 588890u);
  EXPECT_TRUE(contents.ends_with("99998\n99999\n"));
}

TEST_F(FileTest, FollowsLinksAndKeepsTheMode) {
  WriteFileAtomically(Path("a"), "old");
  ASSERT_EQ(chmod(Path("a").c_str(), 0640), 0);
  ASSERT_EQ(symlink("a", Path("link").c_str()), 0);
  WriteFileAtomically(Path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(ReadFile(Path("a"), 10), "new");
  struct stat status {};
  ASSERT_EQ(stat(Path("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(FileTest, DevicesAreWrittenDirectly) {
  WriteFileAtomically("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(FileTest, AFullDiskIsARunError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  EXPECT_THROW(WriteFileAtomically("/dev/full", "x"), RunError);
}

}  // namespace
}  // namespace heddle
