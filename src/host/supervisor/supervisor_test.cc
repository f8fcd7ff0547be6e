// The parts of the supervisor; shells stand for ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "host/supervisor/mpirun_words.h"
#include "host/supervisor/watch.h"

namespace heddle {
namespace {

const std::string kDashes(74, '-');

std::string MpirunBlock(const std::string& words) {
  return kDashes + "\n" + words + "\n" + kDashes + "\n";
}

TEST(MpirunWords, KnowsWhoWasKilled) {
  MpirunWords words;
  EXPECT_EQ(words.Take(
                "a line of a rank\n" +
                MpirunBlock("Primary job  terminated normally, but 1 process returned\n"
                            "a non-zero exit code. Per user-direction, the job has been aborted.") +
                MpirunBlock("mpirun noticed that process rank 3 with PID 0 on node vm exited on "
                            "signal 9 (Killed).")),
            "a line of a rank\n");
  EXPECT_EQ(words.end(), (RankEnd{.rank = 3, .signal = 9}));
}

TEST(MpirunWords, KnowsWhoExited) {
  MpirunWords words;
  std::string text = MpirunBlock(
      "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
      "the job to be terminated. The first process to do so was:\n\n"
      "  Process name: [[25101,1],1]\n  Exit code:    7");
  std::string shown;
  for (char byte : text) shown += words.Take(std::string(1, byte));
  EXPECT_EQ(shown + words.TakeRest(), "");
  EXPECT_EQ(words.end(), (RankEnd{.rank = 1, .exit_code = 7}));
}

TEST(MpirunWords, KeepsItsOwnWordsAndPassesOnThoseOfRanks) {
  MpirunWords words;
  std::string refused = MpirunBlock("There are not enough slots available in the system. Sorry.");
  EXPECT_EQ(words.Take(refused + "half a l"), "");
  EXPECT_EQ(words.Take("ine\n[vm:12] *** An error\n[1] of a rank\n" + kDashes +
                       "\nheddle: warning\nnever closed\n"),
            "half a line\n[1] of a rank\nheddle: warning\n");
  EXPECT_EQ(words.TakeRest(), "");
  EXPECT_EQ(words.own(), refused + "[vm:12] *** An error\n" + kDashes + "\nnever closed\n");
  EXPECT_EQ(words.Cause(), "There are not enough slots available in the system");
  EXPECT_EQ(words.end(), std::nullopt);
}

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() : folder_((std::filesystem::temp_directory_path() / "heddle-XXXXXX").string()) {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
  }
  ~SupervisorTest() override { std::filesystem::remove_all(folder_); }

  std::string Path() const { return folder_ + "/ranks"; }

  // Watches one shell that stands for a rank.
  std::optional<RankFailure> WatchShell(const std::string& script, RankTable& table,
                                        double timeout = 30) {
    Child child({.command = {"sh", "-c", script}});
    return Watch(child, table, {.timeout_seconds = timeout, .start_seconds = timeout});
  }

  std::string folder_;
};

std::string Words(const RankFailure& failure) {
  return Describe(failure, [](int rank, int64_t instruction) {
    return fmt::format("{} of 9 (rank {})", instruction, rank);
  });
}

TEST_F(SupervisorTest, ATableIsSharedAndRefusesOthers) {
  RankTable table = RankTable::Create(Path(), {.ranks = 3, .attempt = 2});
  RankTable mine = RankTable::Open(Path());
  EXPECT_EQ(mine.ranks(), 3);
  EXPECT_EQ(mine.header().attempt, 2);
  EXPECT_EQ(mine.header().supervisor, getpid());
  mine.slot(2).At(7, 5);
  EXPECT_EQ(table.slot(2).step.load(), 7);
  EXPECT_EQ(table.slot(2).instruction.load(), 5);
  EXPECT_EQ(table.slot(2).phase.load(), RankPhase::kTraining);
  EXPECT_EQ(table.slot(1).beats.load(), 0);
  mine.slot(0).Fail(RankError::kInput, std::string(5000, 'x') + "\n");
  EXPECT_TRUE(table.slot(0).HasFailed());
  EXPECT_EQ(table.slot(0).ErrorText(), std::string(1023, 'x'));
  EXPECT_THROW(RankTable::Create(Path(), {.ranks = 1}), RunError);
  EXPECT_THROW(RankTable::Open(folder_ + "/none"), InputError);
  std::filesystem::resize_file(Path(), std::filesystem::file_size(Path()) - 64);
  EXPECT_THROW(RankTable::Open(Path()), InputError);
  std::ofstream(folder_ + "/other") << std::string(8000, 'x');
  EXPECT_THROW(RankTable::Open(folder_ + "/other"), InputError);
}

TEST_F(SupervisorTest, SaysHowAProcessEnded) {
  RankTable table = RankTable::Create(Path(), {.ranks = 1});
  // An exit code of 0 is not enough: the rank has not finished its work.
  std::optional<RankFailure> failure = WatchShell("exit 0", table);
  ASSERT_TRUE(failure);
  EXPECT_EQ(Words(*failure), "rank 0 ended with exit code 0 while starting");
  failure = WatchShell("kill -9 $$", table);
  ASSERT_TRUE(failure);
  EXPECT_EQ(Words(*failure), "rank 0 was killed by signal 9 (Killed) while starting");
  table.slot(0).At(12, 4);
  failure = WatchShell("exit 7", table);
  ASSERT_TRUE(failure);
  EXPECT_EQ(Words(*failure),
            "rank 0 ended with exit code 7 in step 12, at instruction 4 of 9 (rank 0)");
  table.slot(0).Fail(RankError::kRun, "the disk is full");
  failure = WatchShell("exit 1", table);
  ASSERT_TRUE(failure);
  EXPECT_EQ(Words(*failure),
            "rank 0 failed in step 12, at instruction 4 of 9 (rank 0): the disk is full");
  table.slot(0).Fail(RankError::kInput, "data.txt: too short");
  EXPECT_EQ(Words(*WatchShell("exit 2", table)), "data.txt: too short");
}

// Shells stand for mpirun: its message becomes part of the error where no other cause is known.
TEST_F(SupervisorTest, SaysWhyMpirunDidNotRunTheRanks) {
  const std::string refusal = MpirunBlock(
      "A requested component was not found.  This means that\nit is not installed.\n\n"
      "Framework: plm\nComponent:   none");
  const std::string ended = MpirunBlock(
      "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
      "the job to be terminated. The first process to do so was:\n\n"
      "  Process name: [[25101,1],1]\n  Exit code:    7");
  struct Case {
    std::string said, then, words;
  };
  const std::vector<Case> cases = {
      {"", "exit 0",
       "mpirun ended without running the ranks; see which mpirun is the first in PATH, or use "
       "--transport threads"},
      {"", "exit 3", "mpirun ended with exit code 3"},
      {"", "kill -9 $$", "mpirun was killed by signal 9 (Killed)"},
      {refusal, "exit 1",
       "mpirun ended with exit code 1: A requested component was not found (Framework: plm, "
       "Component: none)"},
      {"[vm:12] PMIX ERROR: OUT-OF-RESOURCE in file a.c\n*** on a NULL communicator\n" + ended,
       "exit 7",
       "rank 1 ended with exit code 7 while starting: PMIX ERROR: OUT-OF-RESOURCE in "
       "file a.c"},
  };
  for (const Case& c : cases) {
    std::string path = folder_ + "/said";
    std::ofstream(path) << c.said;
    std::filesystem::remove(Path());
    RankTable table = RankTable::Create(Path(), {.ranks = 2});
    testing::internal::CaptureStderr();
    Child child({.command = {"sh", "-c", "cat " + path + " >&2; " + c.then}});
    std::optional<RankFailure> failure =
        Watch(child, table, {.mpirun = true, .timeout_seconds = 30, .start_seconds = 30});
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << c.words;
    ASSERT_TRUE(failure) << c.words;
    EXPECT_EQ(Words(*failure), c.words);
  }
}

TEST_F(SupervisorTest, OneRankThatLeavesQuietlyIsNamed) {
  RankTable table = RankTable::Create(Path(), {.ranks = 2});
  table.slot(0).Enter(RankPhase::kDone);
  table.slot(1).At(3, 1);
  auto watch = [&] {
    Child child({.command = {"true"}});
    return Watch(child, table, {.mpirun = true, .timeout_seconds = 30, .start_seconds = 30});
  };
  std::optional<RankFailure> failure = watch();
  ASSERT_TRUE(failure);
  EXPECT_EQ(Words(*failure),
            "rank 1 ended with exit code 0 in step 3, at instruction 1 of 9 (rank 1)");
  table.slot(1).Enter(RankPhase::kDone);
  EXPECT_EQ(watch(), std::nullopt);
}

TEST_F(SupervisorTest, VariablesAreLeftOut) {
  setenv("HEDDLE_TEST_GONE", "1", 1);
  setenv("HEDDLE_TEST_KEPT", "1", 1);
  RankTable table = RankTable::Create(Path(), {.ranks = 1});
  Child child({.command = {"sh", "-c", "test -z \"$HEDDLE_TEST_GONE\" -a -n \"$HEDDLE_TEST_KEPT\""},
               .leave_out = [](std::string_view name) { return name == "HEDDLE_TEST_GONE"; }});
  while (!child.HasEnded()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(child.status(), 0);
}

TEST_F(SupervisorTest, NoticesAStoppedProcessAndLeavesNothingBehind) {
  RankTable table = RankTable::Create(Path(), {.ranks = 1});
  std::string child_file = folder_ + "/pid";
  std::thread rank([&] {
    while (!std::filesystem::exists(child_file) || std::filesystem::file_size(child_file) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pid_t pid = 0;
    std::ifstream(child_file) >> pid;
    table.slot(0).pid.store(pid);
    table.slot(0).At(3, 1);
    kill(pid, SIGSTOP);
  });
  // The shell waits for a child that would outlive it.
  std::optional<RankFailure> failure =
      WatchShell("sleep 100 & echo $! > " + child_file + ".new; mv " + child_file + ".new " +
                     child_file + "; wait",
                 table, 0.4);
  rank.join();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, RankFailure::Kind::kHung);
  EXPECT_EQ(failure->state, 'T');
  EXPECT_GE(failure->silent_seconds, 0.4);
  EXPECT_EQ(kill(static_cast<pid_t>(table.slot(0).pid.load()), 0), -1);
}

// Also ends processes with their own session or environment, and leaves processes that others started alone.
TEST_F(SupervisorTest, EndsAllThatItStartedAndNothingElse) {
  pid_t other = fork();
  if (other == 0) _exit(7);
  Child second({.command = {"sleep", "100"}});
  std::string pids = folder_ + "/pids";
  {
    Child child({.command = {"sh", "-c",
                             "env -i setsid sleep 100 & echo $! >> " + pids +
                                 "; (setsid sleep 100 & echo $! >> " + pids + "); touch " + pids +
                                 ".whole; wait"}});
    while (!std::filesystem::exists(pids + ".whole"))
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(child.Kill());
  }
  std::ifstream file(pids);
  int started = 0;
  for (pid_t pid = 0; file >> pid; ++started) EXPECT_EQ(ProcessState(pid), 'X') << pid;
  EXPECT_EQ(started, 2);
  EXPECT_FALSE(second.HasEnded());
  int status = 0;
  ASSERT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(SupervisorTest, WhatIsNotThereIsNotStarted) {
  EXPECT_THROW(Child({.command = {"no-such-program-of-heddle"}}), InputError);
  EXPECT_THROW(Child({.command = {folder_ + "/none"}}), RunError);
}

TEST_F(SupervisorTest, APrivateNetworkHasNothingButLoopback) {
  RankTable table = RankTable::Create(Path(), {.ranks = 1});
  std::string out = folder_ + "/interfaces";
  Child child({.command = {"sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1 > " + out},
               .private_network = true});
  table.slot(0).Enter(RankPhase::kDone);
  EXPECT_EQ(Watch(child, table, {.timeout_seconds = 30, .start_seconds = 30}), std::nullopt);
  if (!child.has_private_network()) GTEST_SKIP() << "this system allows none";
  std::string name;
  std::ifstream(out) >> name;
  EXPECT_EQ(name, "lo");
}

}  // namespace
}  // namespace heddle
