#include "graph/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/file.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// A file with the given header and data, preceded by the length of the header.
std::string Pack(std::string_view header, std::string_view data) {
  uint64_t size = header.size();
  std::string out(reinterpret_cast<const char*>(&size), sizeof(size));
  return out.append(header).append(data);
}

SafetensorsHeader Parse(const std::string& bytes) {
  return ParseSafetensors(std::as_bytes(std::span(bytes)), "w.safetensors");
}

std::string ParseError(const std::string& bytes) {
  try {
    Parse(bytes);
  } catch (const InputError& error) {
    return error.what();
  }
  return "(no error)";
}

struct SafetensorsTest : testing::Test {
  std::filesystem::path folder;

  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "heddle_st_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string Path(std::string_view name) const { return (folder / name).string(); }

  // The error message of opening the file, without the folder.
  std::string OpenError(std::string_view name) const {
    try {
      SafetensorsFile::Open(Path(name));
    } catch (const InputError& error) {
      std::string text = error.what();
      EXPECT_THAT(text, StartsWith(Path(name)));
      return text.substr(folder.string().size() + 1);
    }
    return "(no error)";
  }
};

TEST_F(SafetensorsTest, ReadsWhatTheFormatSays) {
  SafetensorsHeader header = Parse(Pack(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[],"data_offsets":[8,10]},)"
      R"("a":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]},)"
      R"("e":{"dtype":"F32","shape":[0,5],"data_offsets":[8,8]}}   )",
      "0123456789"));
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0], (SafetensorsEntry{"a", {DType::kI64, {1, 1}}, 0, 8}));
  EXPECT_EQ(header.tensors[1], (SafetensorsEntry{"b", {DType::kF16, {}}, 8, 10}));
  EXPECT_EQ(header.tensors[2], (SafetensorsEntry{"e", {DType::kF32, {0, 5}}, 8, 8}));
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_TRUE(Parse(Pack("{}", "")).tensors.empty());
}

TEST_F(SafetensorsTest, RoundTripsEveryType) {
  std::mt19937_64 random(1);
  std::vector<HostTensor> tensors;
  for (const DTypeInfo& info : AllDTypes()) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0}, Shape{2, 3, 1}}) {
      HostTensor tensor(info.dtype, shape);
      for (std::byte& b : tensor.data) {
        b = static_cast<std::byte>(info.dtype == DType::kBool ? random() % 2 : random());
      }
      tensors.push_back(std::move(tensor));
    }
  }
  std::vector<NamedTensor> items;
  for (size_t i = 0; i < tensors.size(); ++i) {
    items.push_back({fmt::format("layer \"{}\".\xc3\xa9", i), &tensors[i]});
  }
  std::map<std::string, std::string> metadata = {{"format", "heddle"}, {"a", "\n\"\x01"}};
  WriteSafetensors(Path("a.safetensors"), items, metadata);
  SafetensorsFile file = SafetensorsFile::Open(Path("a.safetensors"));
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const NamedTensor& item : items) {
    EXPECT_EQ(file.Load(item.name), *item.tensor);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file.Bytes(item.name).data()) %
                  static_cast<uintptr_t>(SizeOf(item.tensor->dtype)),
              0u);
  }
  EXPECT_EQ(file.LoadAll().size(), tensors.size());

  // The order of the arguments does not matter, and moving keeps the mapping.
  std::reverse(items.begin(), items.end());
  WriteSafetensors(Path("b.safetensors"), items, metadata);
  EXPECT_EQ(ReadFile(Path("a.safetensors"), 1 << 20), ReadFile(Path("b.safetensors"), 1 << 20));
  SafetensorsFile moved = std::move(file);
  EXPECT_EQ(moved.Load(items[0].name), *items[0].tensor);
}

TEST_F(SafetensorsTest, WritesPinnedBytes) {
  HostTensor x = MakeTensor(DType::kU8, {2}, std::vector<int64_t>{7, 8});
  HostTensor y = MakeTensor(DType::kI16, {1}, std::vector<int64_t>{258});
  std::vector<NamedTensor> items = {{"x", &x}, {"y", &y}};
  WriteSafetensors(Path("a"), items, {{"k", "v"}});
  EXPECT_EQ(
      ReadFile(Path("a"), 1000),
      Pack(R"({"__metadata__":{"k":"v"},"y":{"dtype":"I16","shape":[1],"data_offsets":[0,2]},)"
           R"("x":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}     )",
           "\x02\x01\x07\x08"));
  WriteSafetensors(Path("a"), {});
  EXPECT_EQ(ReadFile(Path("a"), 1000), Pack("{}      ", ""));
}

TEST_F(SafetensorsTest, WriterRefuses) {
  HostTensor x(DType::kU8, {2});
  auto error = [&](std::vector<NamedTensor> items, const std::string& path,
                   const std::map<std::string, std::string>& metadata = {}) -> std::string {
    try {
      WriteSafetensors(path, items, metadata);
    } catch (const InputError& found) {
      return found.what();
    }
    return "(no error)";
  };
  std::string path = Path("a");
  EXPECT_EQ(error({{"x", &x}, {"x", &x}}, path), path + ": tensor 'x' is given twice");
  EXPECT_EQ(error({{"__metadata__", &x}}, path),
            path + ": a tensor may not be named __metadata__; rename it");
  EXPECT_EQ(error({{"\xff", &x}}, path), path + ": cannot write tensor \"\\xff\": it is not UTF-8");
  EXPECT_EQ(error({}, path, {{"\xff", ""}}),
            path + ": cannot write a key of the metadata: it is not UTF-8");
  EXPECT_THAT(error({{"x", &x}}, Path("none/a")), HasSubstr("none/a"));
  EXPECT_EQ(error(std::vector<NamedTensor>(100'001, {"x", &x}), path),
            path + ": cannot write 100001 tensors, at most 100000");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(SafetensorsTest, FilesThatAreNone) {
  std::filesystem::create_directory(folder / "dir");
  ::mkfifo(Path("pipe").c_str(), 0600);
  WriteFileAtomically(Path("empty"), "");
  WriteFileAtomically(Path("short"), "abc");
  WriteFileAtomically(Path("a.pt"), std::string("PK\x03\x04\x00\x00\x08\x08\x00\x00", 10));
  WriteFileAtomically(Path("b.pth"), std::string("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9", 9));
  EXPECT_EQ(OpenError("none"), "none: no such file; check the path");
  EXPECT_EQ(OpenError("dir"), "dir: is a directory; give a file in it");
  EXPECT_EQ(OpenError("pipe"), "pipe: is not a regular file; save the contents to a file first");
  EXPECT_EQ(OpenError("empty"), "empty: has 0 bytes, too few for the length of a header");
  EXPECT_EQ(OpenError("short"), "short: has 3 bytes, too few for the length of a header");
  EXPECT_EQ(OpenError("a.pt"),
            "a.pt: is a zip archive (a PyTorch checkpoint?), not safetensors; convert it with "
            "safetensors.torch.save_file(torch.load(FILE, weights_only=True), OUT)");
  EXPECT_EQ(
      OpenError("b.pth"),
      "b.pth: is a Python pickle, which can run code when loaded, not safetensors; convert it "
      "with safetensors.torch.save_file(torch.load(FILE, weights_only=True), OUT)");
}

TEST_F(SafetensorsTest, AHeaderOf640BytesIsNoPickle) {
  std::string header = "{}";
  header.resize(640, ' ');  // its length begins with the bytes 0x80 0x02
  EXPECT_EQ(ParseError(Pack(header, "")), "(no error)");
}

TEST_F(SafetensorsTest, LoadRefuses) {
  WriteFileAtomically(Path("a"), Pack(R"({"m":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})",
                                      std::string("\0\1\7", 3)));
  SafetensorsFile file = SafetensorsFile::Open(Path("a"));
  EXPECT_EQ(file.Find("w"), nullptr);
  auto error = [&](std::string_view name) -> std::string {
    try {
      file.Load(name);
    } catch (const InputError& found) {
      return std::string(found.what()).substr(folder.string().size() + 1);
    }
    return "(no error)";
  };
  EXPECT_EQ(error("w"), "a: has no tensor 'w'; it has 1 others");
  EXPECT_EQ(error("m"), "a: tensor 'm': element 2 is 7, but a BOOL is 0 or 1");
}

TEST_F(SafetensorsTest, BadLengths) {
  const std::string good = Pack(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "ab");
  EXPECT_EQ(ParseError(good), "(no error)");
  EXPECT_EQ(ParseError(good.substr(0, 30)),
            "w.safetensors: claims a header of 53 bytes, but only 22 follow; is it cut off?");
  EXPECT_EQ(ParseError(good.substr(0, good.size() - 1)),
            "w.safetensors: tensor 'x' ends at byte 2 of the data, but the file holds 1; is it cut "
            "off?");
  EXPECT_EQ(ParseError(good + "c"),
            "w.safetensors: the tensors cover 2 bytes of data, but the file holds 3");
  EXPECT_EQ(
      ParseError(std::string(8, '\xff') + "{}"),
      "w.safetensors: claims a header of 18446744073709551615 bytes, above 100000000; is it a "
      "safetensors file?");
  EXPECT_EQ(ParseError(Pack("", "")), "w.safetensors: the header does not begin with '{'");
  EXPECT_EQ(ParseError(Pack(" {}", "")), "w.safetensors: the header does not begin with '{'");
  for (const std::string& padding :
       {std::string("\n"), std::string("\t "), std::string(1, 0), std::string(" x")}) {
    EXPECT_EQ(
        ParseError(Pack("{}" + padding, "")),
        "w.safetensors: the header does not end with '}' and spaces; other padding is refused");
  }
}

struct BadHeader {
  std::string header;
  std::string message;  // after "w.safetensors: "
  std::string data = "";

  friend void PrintTo(const BadHeader& bad, std::ostream* out) { *out << bad.header; }
};

class BadHeaderTest : public testing::TestWithParam<BadHeader> {};

TEST_P(BadHeaderTest, SaysWhat) {
  EXPECT_EQ(ParseError(Pack(GetParam().header, GetParam().data)),
            "w.safetensors: " + GetParam().message);
}

// The header of a file with one tensor "x" and the given fields.
std::string X(std::string_view inside) { return "{\"x\":{" + std::string(inside) + "}}"; }

const BadHeader kBadHeaders[] = {
    {"{,}", "the header is not JSON, at byte 2 of it"},
    {"{\"x\":}", "the header is not JSON, at byte 6 of it"},
    {"{\"\xff\":{}}", "the header is not JSON, at byte 3 of it"},
    {"{} {}", "the header is not JSON, at byte 4 of it"},
    {R"({"x":1})", "tensor 'x': expected an object, found 1"},
    {R"({"x":null})", "tensor 'x': expected an object, found null"},
    {R"({"x":[]})", "tensor 'x': expected an object, found a list"},
    {R"({"__metadata__":"a"})", "__metadata__: expected an object, found \"a\""},
    {R"({"__metadata__":{"a":1}})", "__metadata__: 'a' is 1; metadata are strings"},
    {R"({"__metadata__":{"a":{}}})", "__metadata__: an object is not allowed here"},
    {R"({"__metadata__":{"a":[]}})", "__metadata__: 'a' is a list; metadata are strings"},
    {R"({"__metadata__":{"a":"","a":""}})", "__metadata__: the key 'a' is given twice"},
    {R"({"__metadata__":{},"__metadata__":{}})", "the header names '__metadata__' twice"},
    {X(""), "tensor 'x': the key 'dtype' is missing"},
    {X(R"("dtype":"F32","data_offsets":[0,4])"), "tensor 'x': the key 'shape' is missing"},
    {X(R"("dtype":"F32","shape":[])"), "tensor 'x': the key 'data_offsets' is missing"},
    {X(R"("dtype":"F32","dtype":"F32")"), "tensor 'x': the key 'dtype' is given twice"},
    {X(R"("extra":1)"),
     "tensor 'x': the key 'extra' is unknown; known are dtype, shape and data_offsets"},
    {X(R"("dtype":"U64")"),
     "tensor 'x': dtype U64 is not supported; convert it to F32 F64 F16 BF16 I64 I32 I16 I8 U8 "
     "BOOL"},
    {X(R"("dtype":3)"), "tensor 'x': dtype is 3, expected a string"},
    {X(R"("dtype":["F32"])"), "tensor 'x': dtype is a list, expected a string"},
    {X(R"("shape":"a")"), "tensor 'x': shape is \"a\"; it must be a list of whole numbers from 0"},
    {X(R"("shape":{})"), "tensor 'x': an object is not allowed here"},
    {X(R"("shape":[[1]])"),
     "tensor 'x': shape holds a list; it must be a list of whole numbers from 0"},
    {X(R"("shape":[-1])"), "tensor 'x': shape holds -1; it must be a list of whole numbers from 0"},
    {X(R"("shape":[1.5])"),
     "tensor 'x': shape holds 1.5; it must be a list of whole numbers from 0"},
    {X(R"("shape":[true])"),
     "tensor 'x': shape holds true; it must be a list of whole numbers from 0"},
    {X(R"("shape":[9223372036854775808])"),
     "tensor 'x': 9223372036854775808 in shape does not fit 63 bits"},
    {X(R"("shape":[18446744073709551616])"),
     "tensor 'x': shape holds 18446744073709551616; it must be a list of whole numbers from 0"},
    {X(R"("shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1])"),
     "tensor 'x': shape has more than 32 entries"},
    {X(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
     "tensor 'x': shape [4294967296,4294967296] has more elements than 63 bits can count"},
    {X(R"("dtype":"F32","shape":[],"data_offsets":[0])"),
     "tensor 'x': data_offsets has 1 entries, expected begin and end"},
    {X(R"("dtype":"F32","shape":[],"data_offsets":[4,0])"),
     "tensor 'x': data_offsets [4,0] end before they begin"},
    {X(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"),
     "tensor 'x': data_offsets [0,4] hold 4 bytes, but f32[2] has 8", "0123"},
    {X(R"("dtype":"U8","shape":[2],"data_offsets":[1,3])"),
     "tensor 'x' begins at byte 1 of the data, leaving a hole from byte 0", "012"},
    {R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
     R"("y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
     "tensor 'y' begins at byte 1 of the data, overlapping what ends at byte 2", "012"},
    {R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
     R"("x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
     "the header names 'x' twice"},
};

INSTANTIATE_TEST_SUITE_P(Headers, BadHeaderTest, testing::ValuesIn(kBadHeaders));

TEST_F(SafetensorsTest, RefusesTooManyTensors) {
  std::string header = "{";
  for (int i = 0; i <= 100'000; ++i) {
    header +=
        fmt::format(R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i ? "," : "", i);
  }
  EXPECT_EQ(ParseError(Pack(header + "}", "")),
            "w.safetensors: the header names more than 100000 tensors");
}

TEST_F(SafetensorsTest, RefusesDeepNestingWithoutBuildingIt) {
  EXPECT_EQ(ParseError(Pack("{\"x\":" + std::string(1'000'000, '[') + "}", "")),
            "w.safetensors: tensor 'x': expected an object, found a list");
}

TEST_F(SafetensorsTest, CutsAnywhereAreRefused) {
  HostTensor x = MakeTensor(DType::kF32, {3}, std::vector<double>{1, 2, 3});
  std::vector<NamedTensor> items = {{"x", &x}, {"y", &x}};
  WriteSafetensors(Path("a"), items);
  std::string whole = ReadFile(Path("a"), 1000);
  EXPECT_EQ(ParseError(whole), "(no error)");
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NE(ParseError(whole.substr(0, i)), "(no error)");
}

}  // namespace
}  // namespace heddle
