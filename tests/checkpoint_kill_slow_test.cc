// Processes are killed while they save. The checkpoint that they leave is either valid or skipped, and never read in
// part.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "base/error.h"
#include "checkpoint/folder.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "run_binary.h"

namespace heddle {
namespace {

constexpr int64_t kElements = 20'000;

SavedPart PartOf(int rank, float value) {
  SavedPart part;
  part.name = "w";
  part.shape = {2, kElements};
  part.tile = {{{rank, rank + 1}}, {{0, kElements}}};
  part.elements = {0, kElements};
  for (size_t k = 0; k < 2; ++k) {
    HostTensor& values = part.values[k].emplace(DType::kF32, Shape{kElements});
    std::ranges::fill(values.as<float>(), k == 0 ? value : value + 0.5F);
  }
  return part;
}

// Two ranks save one checkpoint after the other until they are killed. All elements of a checkpoint equal its step.
[[noreturn]] void SaveForEver(const std::string& folder, int64_t from, uint64_t run) {
  CheckpointWriter zero({.folder = folder, .keep = 3, .rank = 0, .ranks = 2, .run_id = run});
  CheckpointWriter one({.folder = folder, .keep = 3, .rank = 1, .ranks = 2, .run_id = run});
  RemoveLeftovers(folder);
  for (int64_t step = from;; ++step) {
    auto value = static_cast<float>(step);
    one.Save(step, [&](auto& parts) { parts = {PartOf(1, value)}; }, {});
    zero.Save(step, [&](auto& parts) { parts = {PartOf(0, value)}; },
              {{"state", {{"updates", step}}}});
  }
}

TEST(KilledSaves, LeaveNothingThatCannotBeRead) {
  TempFolder temporary;
  std::string folder = temporary / "run";
  std::filesystem::create_directories(folder);
  std::mt19937 random(7);
  int64_t last = 0, leftovers = 0;
  constexpr int kKills = 300;
  for (int kill_number = 0; kill_number < kKills; ++kill_number) {
    pid_t child = fork();
    if (child == 0) SaveForEver(folder, last + 1, static_cast<uint64_t>(kill_number) + 1);
    ASSERT_GT(child, 0);
    usleep(static_cast<useconds_t>(1000 + random() % 60'000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << status;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      leftovers += entry.path().string().find(".tmp-") != std::string::npos ? 1 : 0;
    }
    for (int64_t step : ListCheckpoints(folder)) {
      std::string path = CheckpointPath(folder, step);
      Manifest manifest;
      ASSERT_NO_THROW(manifest = OpenCheckpoint(path)) << path;
      ASSERT_NO_THROW(VerifyCheckpoint(path, manifest)) << path;
      CheckpointReader reader(path, manifest);
      HostTensor whole = *reader.Whole(StateKind::kWeights, "w");
      for (float value : whole.as<float>()) ASSERT_EQ(value, static_cast<float>(step));
    }
    std::optional<FoundCheckpoint> found = LastGoodCheckpoint(
        folder, [](const std::string& why) { ADD_FAILURE() << "unreadable: " << why; });
    int64_t now = found ? found->step : 0;
    ASSERT_GE(now, last) << "a checkpoint was lost";
    last = now;
  }
  fmt::print("{} kills, {} while a checkpoint was being written, {} checkpoints made\n", kKills,
             leftovers, last);
  EXPECT_GT(leftovers, kKills / 2);
  EXPECT_GT(last, 10);
}

}  // namespace
}  // namespace heddle
