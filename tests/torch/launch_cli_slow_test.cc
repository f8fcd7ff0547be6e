// Leftovers of killed runs, and runs with little shared memory.
#include "failing_run.h"

namespace heddle {
namespace {

const std::string kTinyModel = "gpt:layers=1,hidden=16,heads=2,seq=8,vocab=32,batch=4";

TEST(LaunchCliSlow, SmallSharedMemoryIsNotUsed) {
  if (std::system("unshare -m mount -t tmpfs tmpfs /dev/shm 2>/dev/null") != 0)
    GTEST_SKIP() << "this system allows no mounts";
  std::string arguments = "train " + kTinyModel + " --steps 1 --dp 2";
  auto with = [&](const std::string& mounts) {
    return RunAfter("unshare -m sh -c 'mount -t tmpfs -o size=2m tmpfs /dev/shm; " + mounts +
                        " exec \"$@\"' sh",
                    arguments);
  };
  RunOutput run = with("");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  run = with("mount -t tmpfs -o size=1m tmpfs /mnt; export TMPDIR=/mnt;");
  EXPECT_EQ(run.status, 1) << run.err;
  EXPECT_EQ(Lines(run.err), 1) << run.err;
  EXPECT_NE(run.err.find("/dev/shm has 2.00 MiB free and /mnt has 1.00 MiB; set TMPDIR"),
            std::string::npos)
      << run.err;
}

std::vector<std::string> PrivateFolders(const std::string& parent) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(parent)) {
    if (entry.path().filename().string().starts_with("heddle-run-")) found.push_back(entry.path());
  }
  return found;
}

// The private folders of a process's descendants.
std::string FolderOf(const FailingRun& run) {
  for (const std::string& folder : PrivateFolders("/dev/shm")) {
    for (auto [rank, pid] : run.Ranks()) {
      if (HasVariable(pid, "HEDDLE_SUPERVISOR=" + folder)) return folder;
    }
  }
  return "";
}

TEST(LaunchCliSlow, WhatKilledSupervisorsLeftGoesWithTheNextRun) {
  std::vector<std::string> folders;
  for (int i = 0; i < 3; ++i) {
    FailingRun run(kTinyModel + " --dp 2 --steps 1000000");
    ASSERT_TRUE(run.WaitForSteps(1)) << run.err();
    folders.push_back(FolderOf(run));
    ASSERT_NE(folders.back(), "");
    std::map<int, pid_t> ranks = run.Ranks();
    kill(run.pid(), SIGKILL);
    run.Wait();
    for (auto [rank, pid] : ranks)
      EXPECT_TRUE(run.WaitUntil([pid = pid] { return IsGone(pid); }, 10)) << rank;
  }
  RunOutput next = RunHeddle("train " + kTinyModel + " --steps 1");
  EXPECT_EQ(next.status, 0) << next.err;
  for (const std::string& folder : folders) EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace heddle
