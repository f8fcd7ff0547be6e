// Several writers in one process stand for ranks.
#include "checkpoint/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/folder.h"
#include "checkpoint/reader.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kColumns = 3;

// Fills in row `rank` of the parameter w, whose elements are all `value`; the first moment is one more.
CheckpointWriter::FillParts RowOf(int rank, int ranks, float value) {
  return [=](std::vector<SavedPart>& parts) {
    parts.resize(1);
    SavedPart& part = parts[0];
    part.name = "w";
    part.shape = {ranks, kColumns};
    part.tile = {{{rank, rank + 1}}, {{0, kColumns}}};
    part.elements = {0, kColumns};
    for (size_t k = 0; k < 2; ++k) {
      HostTensor& values = part.values[k].emplace(DType::kF32, Shape{kColumns});
      std::ranges::fill(values.as<float>(), value + static_cast<float>(k));
    }
  };
}

class WriterTest : public testing::Test {
 protected:
  WriterTest() {
    std::string pattern = (fs::temp_directory_path() / "heddle-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~WriterTest() override { fs::remove_all(folder_); }

  CheckpointWriterOptions Options(int rank, int ranks, double deadline_seconds = 60) const {
    return {.folder = folder_,
            .keep = 2,
            .rank = rank,
            .ranks = ranks,
            .run_id = 7,
            .deadline_seconds = deadline_seconds};
  }

  std::string folder_;
};

const Json kRun = {{"state", {{"updates", 1}}}};

TEST_F(WriterTest, RanksSaveTogetherAndTheLastCheckpointsStay) {
  constexpr int kRanks = 4;
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank] {
        CheckpointWriter writer(Options(rank, kRanks));
        writer.Prepare(RowOf(rank, kRanks, 0));
        for (int64_t step = 1; step <= 5; ++step) {
          auto value = static_cast<float>(100 * step + rank);
          writer.Save(step, RowOf(rank, kRanks, value), kRun, /*last=*/step == 5);
        }
        writer.Finish();
        EXPECT_EQ(writer.failure(), "");
        EXPECT_GT(writer.cost(), 0);
      });
    }
  }
  EXPECT_EQ(ListCheckpoints(folder_), (std::vector<int64_t>{4, 5}));
  for (int64_t step : {4, 5}) {
    Manifest manifest = RequireSound(folder_, step);
    EXPECT_EQ(manifest.ranks, kRanks);
    CheckpointReader reader(CheckpointPath(folder_, step), manifest);
    HostTensor weights = *reader.Whole(StateKind::kWeights, "w");
    HostTensor moments = *reader.Whole(StateKind::kFirst, "w");
    for (int rank = 0; rank < kRanks; ++rank) {
      auto element = static_cast<size_t>(rank * kColumns);
      EXPECT_EQ(weights.as<float>()[element], static_cast<float>(100 * step + rank));
      EXPECT_EQ(moments.as<float>()[element], static_cast<float>(100 * step + rank + 1));
    }
    EXPECT_FALSE(reader.Whole(StateKind::kSecond, "w").has_value());
  }
  EXPECT_EQ(ReadFile(folder_ + "/latest", 100), "step-00000005\n");
}

TEST_F(WriterTest, MemoryOfThePreviousSaveIsHandedBack) {
  CheckpointWriter writer(Options(0, 1));
  const std::byte* before = nullptr;
  writer.Prepare([&](std::vector<SavedPart>& parts) {
    EXPECT_TRUE(parts.empty());
    RowOf(0, 1, 1)(parts);
    before = parts[0].values[0]->data.data();
  });
  writer.Save(
      1,
      [&](std::vector<SavedPart>& parts) {
        ASSERT_EQ(parts.size(), 1u);
        EXPECT_EQ(parts[0].values[0]->data.data(), before);
      },
      kRun);
  writer.Finish();
  EXPECT_EQ(writer.failure(), "");
}

TEST_F(WriterTest, TheFirstRankSaysWhyAnotherHasNoShard) {
  CheckpointWriter zero(Options(0, 2)), one(Options(1, 2));
  // A folder in place of the shard's file.
  fs::create_directories(folder_ + "/step-00000003.tmp-0000000000000007/rank-00001.safetensors");
  zero.Save(3, RowOf(0, 2, 1), kRun, /*last=*/true);
  one.Save(3, RowOf(1, 2, 1), kRun, /*last=*/true);
  one.Finish();
  zero.Finish();
  EXPECT_THAT(zero.failure(), HasSubstr("step 3 was not saved: rank 1: "));
  EXPECT_TRUE(ListCheckpoints(folder_).empty());
  EXPECT_FALSE(fs::exists(folder_ + "/step-00000003.tmp-0000000000000007"));
}

TEST_F(WriterTest, ARankThatDoesNotSaveMeetsTheDeadline) {
  CheckpointWriter zero(Options(0, 2, /*deadline_seconds=*/0.05));
  zero.Save(1, RowOf(0, 2, 1), kRun, /*last=*/true);
  zero.Finish();
  EXPECT_EQ(zero.failure(), "step 1 was not saved: rank 1 did not write its part within 0.05 s");
}

TEST_F(WriterTest, AWriterThatIsDestroyedStopsWaiting) {
  {
    CheckpointWriter zero(Options(0, 2, /*deadline_seconds=*/1e6));
    zero.Save(1, RowOf(0, 2, 1), kRun, /*last=*/true);
  }
  EXPECT_TRUE(ListCheckpoints(folder_).empty());
}

TEST_F(WriterTest, AFolderHasOneRunAtATime) {
  {
    FolderLock lock(folder_);
    EXPECT_THROW(FolderLock{folder_}, InputError);
  }
  FolderLock again(folder_);
}

}  // namespace
}  // namespace heddle
