// Who starts the ranks of `heddle train`, and what is left of a run that was killed.
#include <sys/statvfs.h>

#include "failing_run.h"

namespace heddle {
namespace {

const std::string kTiny = "gpt:layers=1,hidden=16,heads=2,seq=8,vocab=32,batch=4";

// `heddle` after the shell's `before` ("NAME=VALUE", "ulimit ...;").
RunOutput RunAfter(const std::string& before, const std::string& arguments) {
  TempFolder folder;
  std::string command = before + " " HEDDLE_BINARY " " + arguments + " >'" + folder / "out" +
                        "' 2>'" + folder / "err" + "' </dev/null";
  int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), Slurp(folder / "out"),
          Slurp(folder / "err")};
}

TEST(LaunchCli, VariablesOfNoLauncherStartNothingAndAreInNobodysWay) {
  struct Case {
    std::string variables, arguments;
    int status;
    std::string err;  // its beginning; empty: none
  };
  const std::string slurm =
      "SLURM_NTASKS=2 SLURM_PROCID=0 SLURM_JOB_ID=1 SLURM_NNODES=1 "
      "SLURM_JOB_NODELIST=none SLURM_TASKS_PER_NODE=2";
  const std::vector<Case> cases = {
      {slurm + " PMI_RANK=0 PMI_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "
               "OMPI_MCA_ess=^singleton RANK=0 WORLD_SIZE=2",
       "--dp 2", 0, ""},
      {slurm, "", 0,
       "heddle: warning: SLURM_NTASKS=2 in the environment is ignored: srun did not "},
      {"PMI_PORT=none:1 PMI_RANK=0 PMI_SIZE=2", "--dp 2", 2,
       "heddle: PMI_SIZE=2 in the environment, but MPI has 1 rank: "},
      {"TORCHELASTIC_RUN_ID=x RANK=0 WORLD_SIZE=2", "--np 2", 2, "heddle: started by torchrun, "},
  };
  for (const Case& c : cases) {
    RunOutput run = RunAfter(c.variables, "train " + kTiny + " --steps 1 " + c.arguments);
    EXPECT_EQ(run.status, c.status) << c.variables << run.err;
    EXPECT_EQ(Lines(run.err), c.err.empty() ? 0 : 1) << run.err;
    EXPECT_TRUE(run.err.starts_with(c.err)) << run.err;
  }
}

TEST(LaunchCli, AnMpirunThatRunsNothingIsAFailure) {
  TempFolder folder;
  std::filesystem::create_symlink("/bin/true", folder / "mpirun");
  std::string path = "PATH='" + folder / "" + "':$PATH";
  for (const std::string& arguments :
       {"train " + kTiny + " --steps 1 --dp 2",
        "calibrate --small --ranks 2 -o '" + folder / "profile.json" + "'"}) {
    RunOutput run = RunAfter(path, arguments);
    EXPECT_EQ(run.status, 1) << arguments << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(Lines(run.err), 1) << run.err;
    EXPECT_TRUE(run.err.starts_with("heddle: mpirun ended without running the ranks")) << run.err;
  }
}

TEST(LaunchCli, SmallSharedMemoryIsNotUsed) {
  if (std::system("unshare -m mount -t tmpfs tmpfs /dev/shm 2>/dev/null") != 0)
    GTEST_SKIP() << "this system allows no mounts";
  std::string arguments = "train " + kTiny + " --steps 1 --dp 2";
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

// The folders that a process's descendants were given.
std::string FolderOf(const FailingRun& run) {
  for (const std::string& folder : PrivateFolders("/dev/shm")) {
    for (auto [rank, pid] : run.Ranks()) {
      if (HasVariable(pid, "HEDDLE_SUPERVISOR=" + folder)) return folder;
    }
  }
  return "";
}

TEST(LaunchCli, WhatKilledSupervisorsLeftGoesWithTheNextRun) {
  std::vector<std::string> folders;
  for (int i = 0; i < 3; ++i) {
    FailingRun run(kTiny + " --dp 2 --steps 1000000");
    ASSERT_TRUE(run.WaitForSteps(1)) << run.err();
    folders.push_back(FolderOf(run));
    ASSERT_NE(folders.back(), "");
    std::map<int, pid_t> ranks = run.Ranks();
    kill(run.pid(), SIGKILL);
    run.Wait();
    for (auto [rank, pid] : ranks)
      EXPECT_TRUE(run.WaitUntil([pid = pid] { return IsGone(pid); }, 10)) << rank;
  }
  RunOutput next = RunHeddle("train " + kTiny + " --steps 1");
  EXPECT_EQ(next.status, 0) << next.err;
  for (const std::string& folder : folders) EXPECT_FALSE(std::filesystem::exists(folder));
}

// A folder in TMPDIR that nobody has the lock of stands for one that a killed fleet left.
TEST(LaunchCli, FoldersOnTheDiskGoToo) {
  TempFolder temporary;
  std::filesystem::create_directories(temporary / "heddle-run-abcdef/mpi");
  std::filesystem::create_directories(temporary / "another");
  RunOutput run = RunAfter("TMPDIR='" + temporary / "" + "'", "train " + kTiny + " --steps 1");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_FALSE(std::filesystem::exists(temporary / "heddle-run-abcdef"));
  EXPECT_TRUE(std::filesystem::exists(temporary / "another"));
}

}  // namespace
}  // namespace heddle
