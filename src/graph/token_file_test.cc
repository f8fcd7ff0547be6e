#include "graph/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "graph/megatron.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class T>
std::string Raw(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// An index written byte by byte as Megatron's writer does. Tests change the field that is to be wrong.
struct Index {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  uint64_t version = 1;
  uint8_t code = 8;
  std::vector<int32_t> lengths = {3, 0, 2};
  std::vector<int64_t> pointers = {0, 6, 6};
  std::vector<int64_t> documents = {0, 1, 3};
  uint64_t sequences = 3, marks = 3;
  std::string rest;

  std::string Bytes() const {
    return magic + Raw<uint64_t>({version}) + static_cast<char>(code) +
           Raw<uint64_t>({sequences, marks}) + Raw(lengths) + Raw(pointers) + Raw(documents) + rest;
  }
};

struct TokenFileTest : testing::Test {
  std::filesystem::path folder;

  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "heddle_tf_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string Path(std::string_view name) const { return (folder / name).string(); }
  std::string Write(std::string_view name, std::string_view bytes) const {
    WriteFileAtomically(Path(name), bytes);
    return Path(name);
  }
  static std::vector<int64_t> All(const TokenFile& file) {
    std::vector<int64_t> tokens(static_cast<size_t>(file.size()));
    file.Read(0, tokens);
    return tokens;
  }
  // The error message of opening the file, without the folder.
  std::string OpenError(std::string_view name) const {
    try {
      TokenFile::Open(Path(name));
    } catch (const InputError& error) {
      std::string text = error.what(), prefix = folder.string() + "/";
      for (size_t at; (at = text.find(prefix)) != text.npos;) text.erase(at, prefix.size());
      return text;
    }
    return "(no error)";
  }
};

TEST_F(TokenFileTest, Text) {
  TokenFile file = TokenFile::Open(Write("a.txt", "ab\xff\n"));
  EXPECT_EQ(file.format(), TokenFormat::kText);
  EXPECT_THAT(All(file), ElementsAre(97, 98, 255, 10));
  EXPECT_EQ(file.FindBeyond(256, 0, 4), 4);
  EXPECT_EQ(file.FindBeyond(128, 0, 4), 2);
  EXPECT_EQ(file.FindBeyond(128, 3, 4), 4);
}

TEST_F(TokenFileTest, TextIsSearchedPastTheFirstPiece) {
  TokenFile file = TokenFile::Open(Write("a.txt", std::string(10'000, 'a') + "\xe9" + "a"));
  EXPECT_EQ(file.FindBeyond(128, 0, file.size()), 10'000);
}

TEST_F(TokenFileTest, NanoGpt) {
  TokenFile file = TokenFile::Open(Write("a.bin", Raw<uint16_t>({1, 50256, 65535})));
  EXPECT_EQ(file.format(), TokenFormat::kNanoGpt);
  EXPECT_THAT(All(file), ElementsAre(1, 50256, 65535));
  EXPECT_EQ(file.ByteOf(2), 4);
  std::vector<int64_t> last(1);
  file.Read(2, last);
  EXPECT_THAT(last, ElementsAre(65535));
}

TEST_F(TokenFileTest, LlmC) {
  std::vector<int32_t> header(256);
  header[0] = 20240520, header[1] = 1, header[2] = 2;
  TokenFile small = TokenFile::Open(Write("a.bin", Raw(header) + Raw<uint16_t>({7, 65535})));
  EXPECT_EQ(small.format(), TokenFormat::kLlmC);
  EXPECT_THAT(All(small), ElementsAre(7, 65535));
  EXPECT_EQ(small.ByteOf(1), 1026);
  header[0] = 20240801, header[1] = 7, header[2] = 1;
  TokenFile large = TokenFile::Open(Write("b.bin", Raw(header) + Raw<uint32_t>({4'000'000'000u})));
  EXPECT_THAT(All(large), ElementsAre(4'000'000'000));
}

TEST_F(TokenFileTest, LlmCRefuses) {
  std::vector<int32_t> header(256);
  header[0] = 20240520, header[1] = 1, header[2] = 3;
  Write("count.bin", Raw(header) + Raw<uint16_t>({7, 8}));
  header[2] = -1;
  Write("negative.bin", Raw(header) + Raw<uint16_t>({7, 8}));
  header[2] = 0;
  Write("none.bin", Raw(header));
  header[1] = 2;
  Write("version.bin", Raw(header));
  Write("short.bin", Raw<int32_t>({20240520, 1}));
  Write("choices.bin", Raw<int32_t>({20240522, 1}));
  EXPECT_EQ(OpenError("count.bin"),
            "count.bin: byte 8: 3 tokens of 2 bytes, but 4 bytes follow the header; the file is "
            "damaged");
  EXPECT_THAT(OpenError("negative.bin"), HasSubstr("byte 8: -1 tokens"));
  EXPECT_EQ(OpenError("none.bin"), "none.bin: contains no tokens");
  EXPECT_EQ(OpenError("version.bin"),
            "version.bin: byte 4: version 2 of llm.c's format, only version 1 is supported");
  EXPECT_THAT(OpenError("short.bin"), HasSubstr("has 8 bytes, too few"));
  EXPECT_THAT(OpenError("choices.bin"), HasSubstr("questions"));
}

TEST_F(TokenFileTest, FilesThatAreNone) {
  std::filesystem::create_directory(folder / "dir.txt");
  Write("empty.txt", "");
  Write("empty.bin", "");
  Write("odd.bin", "abc");
  Write("zip.bin", "PK\x03\x04zz");
  Write("zero.txt", std::string("ab\0c", 4));
  EXPECT_EQ(OpenError("none.txt"), "none.txt: no such file; check the path");
  EXPECT_EQ(OpenError("dir.txt"), "dir.txt: is a directory; give a file in it");
  EXPECT_EQ(OpenError("empty.txt"), "empty.txt: is empty; give a file with text");
  EXPECT_EQ(OpenError("empty.bin"), "empty.bin: is empty; give a file of tokens");
  EXPECT_EQ(
      OpenError("odd.bin"),
      "odd.bin: has 3 bytes, which is not a whole number of 16-bit tokens; is it cut off, or of "
      "another format?");
  EXPECT_THAT(OpenError("zip.bin"), HasSubstr("zip archive"));
  EXPECT_EQ(
      OpenError("zero.txt"),
      "zero.txt: byte 2 is 0, so it is not text; files of tokens end in .bin or .idx, files of "
      "tensors in .safetensors");
}

TEST_F(TokenFileTest, MegatronByAnyOfItsNames) {
  Write("a.bin", Raw<uint16_t>({5, 6, 7, 8, 65535}));
  Write("a.idx", Index{}.Bytes());
  for (std::string_view name : {"a.bin", "a.idx", "a"}) {
    TokenFile file = TokenFile::Open(Path(name));
    EXPECT_EQ(file.format(), TokenFormat::kMegatron);
    EXPECT_EQ(file.path(), Path("a.bin"));
    EXPECT_THAT(All(file), ElementsAre(5, 6, 7, 8, 65535));
  }
}

TEST_F(TokenFileTest, MegatronOfEveryType) {
  auto read = [&](uint8_t code, const std::string& tokens) {
    Index index;
    index.code = code;
    index.lengths = {2}, index.pointers = {0}, index.documents = {0, 1};
    index.sequences = 1, index.marks = 2;
    index.rest = std::string(1, '\1');  // a mode
    Write("a.bin", tokens);
    Write("a.idx", index.Bytes());
    return All(TokenFile::Open(Path("a.idx")));
  };
  EXPECT_THAT(read(1, Raw<uint8_t>({1, 255})), ElementsAre(1, 255));
  EXPECT_THAT(read(2, Raw<int8_t>({1, -1})), ElementsAre(1, -1));
  EXPECT_THAT(read(3, Raw<int16_t>({1, -2})), ElementsAre(1, -2));
  EXPECT_THAT(read(4, Raw<int32_t>({1, 1 << 30})), ElementsAre(1, 1 << 30));
  EXPECT_THAT(read(5, Raw<int64_t>({1, int64_t{1} << 40})), ElementsAre(1, int64_t{1} << 40));
  EXPECT_THAT(read(8, Raw<uint16_t>({1, 65535})), ElementsAre(1, 65535));
}

TEST_F(TokenFileTest, MegatronRefuses) {
  Write("a.bin", Raw<uint16_t>({5, 6, 7, 8, 9}));
  auto error = [&](auto change) {
    Index index;
    change(index);
    Write("a.idx", index.Bytes());
    return OpenError("a.bin");
  };
  EXPECT_EQ(error([](Index&) {}), "(no error)");
  EXPECT_EQ(
      error([](Index& i) { i.magic[0] = 'X'; }),
      "a.idx: byte 0: does not begin with MMIDIDX, so it is not a Megatron index; if a.bin is a "
      "plain file of tokens, move the .idx away");
  EXPECT_EQ(error([](Index& i) { i.version = 2; }),
            "a.idx: byte 9: version 2, only version 1 is supported");
  EXPECT_EQ(error([](Index& i) { i.code = 0; }),
            "a.idx: byte 17: type code 0 is not one of 1 to 8");
  EXPECT_EQ(error([](Index& i) { i.code = 9; }),
            "a.idx: byte 17: type code 9 is not one of 1 to 8");
  EXPECT_EQ(error([](Index& i) { i.code = 7; }),
            "a.idx: byte 17: tokens of type f32 (code 7); tokens must be integers");
  EXPECT_EQ(error([](Index& i) { i.sequences = ~uint64_t{0}; }),
            "a.idx: byte 18: 18446744073709551615 sequences, more than its 94 bytes can hold; the "
            "file is damaged");
  EXPECT_EQ(error([](Index& i) { i.marks = 1000; }),
            "a.idx: byte 26: 1000 document marks, more than its 94 bytes can hold; the file is "
            "damaged");
  EXPECT_EQ(error([](Index& i) { i.sequences = 4; }),
            "a.idx: has 94 bytes, but 4 sequences and 3 document marks take 106 (110 with modes); "
            "the file is damaged");
  EXPECT_THAT(error([](Index& i) { i.rest = "x"; }), HasSubstr("has 95 bytes"));
  EXPECT_EQ(error([](Index& i) { i.lengths[1] = -1; }), "a.idx: sequence 1: its length is -1");
  EXPECT_EQ(error([](Index& i) { i.lengths[2] = 3; }),
            "a.idx: sequence 2: 3 tokens of 2 bytes at byte 6, but a.bin has 10 bytes; do the two "
            "files belong together?");
  EXPECT_THAT(error([](Index& i) { i.pointers[2] = -6; }), HasSubstr("at byte -6"));
  EXPECT_THAT(error([](Index& i) { i.pointers[2] = INT64_MAX; }), HasSubstr("9223372036854775807"));
  EXPECT_EQ(error([](Index& i) { i.pointers[2] = 4; }),
            "a.idx: sequence 2: begins at byte 4 of a.bin, not at 6 where the previous one ends");
  EXPECT_EQ(error([](Index& i) { i.lengths[2] = 1; }),
            "a.idx: its sequences end at byte 8, but a.bin has 10 bytes; do the two files belong "
            "together?");
  EXPECT_EQ(error([](Index& i) { i.documents[0] = 1; }),
            "a.idx: document mark 0 is 1; marks ascend from 0 to the 3 sequences");
  EXPECT_THAT(error([](Index& i) { i.documents = {0, 3, 1}; }), HasSubstr("document mark 2 is 1"));
  EXPECT_THAT(error([](Index& i) { i.documents[2] = 4; }), HasSubstr("document mark 2 is 4"));
  EXPECT_EQ(error([](Index& i) { i.documents[2] = 2; }),
            "a.idx: the last document mark is 2, not the 3 sequences; the file is damaged");
}

TEST_F(TokenFileTest, MegatronCutShortAnywhere) {
  Write("a.bin", Raw<uint16_t>({5, 6, 7, 8, 9}));
  std::string whole = Index{}.Bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    Write("a.idx", whole.substr(0, size));
    EXPECT_THAT(OpenError("a.idx"), testing::StartsWith("a.idx: ")) << size;
  }
}

TEST_F(TokenFileTest, MegatronPairsThatAreNone) {
  Write("a.idx", Index{}.Bytes());
  EXPECT_EQ(OpenError("a.idx"), "a.idx: the file a.bin with its tokens is missing beside it");
  EXPECT_EQ(OpenError("b.idx"), "b.idx: no such file; check the path");
  Index none;
  none.lengths = {}, none.pointers = {}, none.documents = {}, none.sequences = none.marks = 0;
  Write("c.idx", none.Bytes());
  Write("c.bin", "");
  EXPECT_EQ(OpenError("c.idx"), "c.bin: contains no tokens");
}

}  // namespace
}  // namespace heddle
