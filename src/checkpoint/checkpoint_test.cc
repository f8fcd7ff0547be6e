#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/folder.h"
#include "checkpoint/reader.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

class Folder : public testing::Test {
 protected:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "heddle-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() override { fs::remove_all(path_); }

  // Writes a tensor w of 2 x 3 in two shards: one has the first column and half of the rest, the other the other half.
  void Write(int64_t step, float first = 0) {
    std::string folder = CheckpointPath(path_, step);
    fs::create_directories(folder);
    HostTensor column = MakeTensor(DType::kF32, {2}, std::vector<double>{first, 3});
    HostTensor left = MakeTensor(DType::kF32, {3}, std::vector<double>{1, 2, 4});
    HostTensor right = MakeTensor(DType::kF32, {1}, std::vector<double>{5});
    std::vector<NamedTensor> one = {{"weights/v", &left}, {"weights/w", &column}};
    std::vector<NamedTensor> two = {{"weights/w", &left}};
    std::vector<NamedTensor> three = {{"weights/w", &right}};
    WriteSafetensors(folder + "/a.safetensors", one);
    WriteSafetensors(folder + "/b.safetensors", two);
    WriteSafetensors(folder + "/c.safetensors", three);
    Manifest manifest;
    manifest.step = step;
    manifest.ranks = 3;
    manifest.run["state"] = {{"updates", step}};
    Tile rest = {{{0, 2}}, {{1, 3}}};
    manifest.tensors["w"] = {{2, 3},
                             {{"a.safetensors", {{{0, 2}}, {{0, 1}}}, {0, 2}},
                              {"c.safetensors", rest, {3, 4}},
                              {"b.safetensors", rest, {0, 3}}}};
    manifest.tensors["v"] = {{3}, {{"a.safetensors", {{{0, 3}}}, {0, 3}}}};
    for (const char* name : {"a.safetensors", "b.safetensors", "c.safetensors"}) {
      manifest.files[name] = Fingerprint(folder + "/" + name);
    }
    WriteFileAtomically(folder + "/manifest.json", ToJson(manifest).dump());
  }

  std::string Wrong(int64_t step) {
    std::string path = CheckpointPath(path_, step);
    try {
      VerifyCheckpoint(path, OpenCheckpoint(path));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  std::string path_;
};

TEST_F(Folder, PiecesMakeTheTensor) {
  Write(4);
  std::string path = CheckpointPath(path_, 4);
  CheckpointReader reader(path, OpenCheckpoint(path));
  std::optional<HostTensor> w = reader.Whole(StateKind::kWeights, "w");
  ASSERT_TRUE(w.has_value());
  EXPECT_THAT(std::vector<float>(w->as<float>().begin(), w->as<float>().end()),
              testing::ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_FALSE(reader.Whole(StateKind::kFirst, "w").has_value());
  EXPECT_THROW(reader.Whole(StateKind::kWeights, "u"), InputError);
}

TEST_F(Folder, DamageIsSeenAndTheOneBeforeFound) {
  for (int64_t step : {1, 2, 10, 11, 12}) Write(step);
  EXPECT_EQ(Wrong(12), "");
  auto path = [&](int64_t step, const char* file) {
    return CheckpointPath(path_, step) + "/" + file;
  };
  fs::resize_file(path(12, "b.safetensors"), 50);  // truncated
  {
    std::fstream file(path(11, "a.safetensors"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');  // one changed byte
  }
  // A shard of another step with the same size.
  Write(9, 7);
  fs::copy_file(path(9, "a.safetensors"), path(10, "a.safetensors"),
                fs::copy_options::overwrite_existing);
  fs::remove_all(CheckpointPath(path_, 9));
  fs::create_directories(CheckpointPath(path_, 3));          // no manifest
  fs::create_directories(path_ + "/step-00000099.tmp-abc");  // being written
  std::vector<std::string> damaged;
  std::optional<FoundCheckpoint> found =
      LastGoodCheckpoint(path_, [&](const std::string& why) { damaged.push_back(why); });
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->step, 2);
  EXPECT_THAT(damaged,
              testing::ElementsAre(testing::HasSubstr("50 bytes"), testing::HasSubstr("hash"),
                                   testing::HasSubstr("hash"), testing::HasSubstr("manifest")));
  EXPECT_THAT(ListCheckpoints(path_), testing::ElementsAre(1, 2, 3, 10, 11, 12));
}

TEST_F(Folder, KeepsTheLastOnesAndClearsLeftovers) {
  for (int64_t step : {1, 2, 3, 4}) Write(step);
  fs::create_directories(path_ + "/step-00000005.tmp-0123/x");
  fs::create_directories(path_ + "/step-00000000.old/x");
  fs::create_directories(path_ + "/mine");
  RemoveLeftovers(path_);
  KeepLast(path_, 2);
  EXPECT_THAT(ListCheckpoints(path_), testing::ElementsAre(3, 4));
  EXPECT_TRUE(fs::exists(path_ + "/mine"));
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), {}), 3);
  EXPECT_THAT(ListCheckpoints(path_ + "/none"), testing::IsEmpty());
}

std::string Refusal(const std::string& from, const std::string& to) {
  std::string text =
      R"({"heddle_checkpoint":1,"step":4,"ranks":1,"run":{},
          "files":{"a":{"bytes":1,"xxh64":"00"}},
          "tensors":{"w":{"shape":[4],"pieces":[{"file":"a","tile":[[[0,4]]],"elements":[0,4]}]}}})";
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  try {
    ManifestFromJson(ParseJson(text, "m"), "m");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Manifest, WhatIsWrongIsSaid) {
  EXPECT_EQ(Refusal("\"step\"", "\"step\""), "");
  EXPECT_THAT(Refusal(":1,\"step", ":2,\"step"), testing::HasSubstr("version 1"));
  EXPECT_THAT(Refusal("\"step\":4", "\"step\":-4"), testing::HasSubstr("step: -4"));
  EXPECT_THAT(Refusal("\"file\":\"a\"", "\"file\":\"../a\""), testing::HasSubstr("../a"));
  EXPECT_THAT(Refusal("\"file\":\"a\"", "\"file\":\"b\""),
              testing::HasSubstr("not among the files"));
  EXPECT_THAT(Refusal("[[[0,4]]]", "[[[0,5]]]"), testing::HasSubstr("inside 4"));
  EXPECT_THAT(Refusal("[[[0,4]]]", "[[[0,2],[1,3]]]"), testing::HasSubstr("ascending"));
  EXPECT_THAT(Refusal("\"elements\":[0,4]", "\"elements\":[0,3]"), testing::HasSubstr("cover"));
  EXPECT_THAT(Refusal("\"elements\":[0,4]", "\"elements\":[0,9]"), testing::HasSubstr("inside 4"));
  EXPECT_THAT(Refusal("\"shape\":[4]", "\"shape\":[9223372036854775807,9223372036854775807]"),
              testing::Not(testing::IsEmpty()));
}

}  // namespace
}  // namespace heddle
